// The walk over the folders, the check of all headers, and the data set that decodes on demand.
#include "runtime/data/image_folder.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <exception>
#include <filesystem>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "graph/support/error.h"
#include "graph/support/log.h"
#include "graph/support/text.h"
#include "runtime/data/file.h"
#include "runtime/data/image.h"
#include "runtime/data/resize_crop.h"

namespace sardonyx::runtime {
namespace {

namespace fs = std::filesystem;

using Strings = std::vector<std::string>;
using support::escaped;

// What lies directly in a folder, each list sorted by bytes.
struct Content {
  Strings folders;
  Strings images;
  int64_t others = 0;
};

Content read_folder(const fs::path& folder) {
  Content content;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    std::error_code unreadable;
    if (name.starts_with('.')) {
      ++content.others;
    } else if (entry.is_directory(unreadable)) {
      content.folders.push_back(name);
    } else if (is_image_name(name)) {
      content.images.push_back(name);
    } else {
      ++content.others;
    }
  }
  if (error) {
    throw Error("{}: cannot read the folder: {}", escaped(folder.string()), error.message());
  }
  std::sort(content.folders.begin(), content.folders.end());
  std::sort(content.images.begin(), content.images.end());
  return content;
}

// Pictures of one part, class by class.
struct Listing {
  Strings classes;
  Strings files;
  std::vector<int64_t> labels;
  int64_t others = 0;  // files that are left out
  Strings strays;      // images beside the classes, likewise
};

// What is in `folder` and in all folders below it, by their names; links are followed, but not to a
// folder around them.
void collect_folders(const fs::path& folder, std::set<fs::path>& around,
                     std::map<std::string, Content>& found) {
  std::error_code error;
  const fs::path real = fs::canonical(folder, error);
  if (error) {
    throw Error("{}: cannot read the folder: {}", escaped(folder.string()), error.message());
  }
  if (!around.insert(real).second) {
    throw Error("{}: this link leads to a folder that it lies in", escaped(folder.string()));
  }
  const Content& content = found[folder.string()] = read_folder(folder);
  for (const std::string& name : content.folders) {
    collect_folders(folder / name, around, found);
  }
  around.erase(real);
}

void collect_class(const fs::path& folder, int64_t label, Listing& listing) {
  std::set<fs::path> around;
  std::map<std::string, Content> folders;
  collect_folders(folder, around, folders);
  const size_t before = listing.files.size();
  for (const auto& [one, content] : folders) {
    for (const std::string& name : content.images) listing.files.push_back(one + "/" + name);
    listing.others += content.others;
  }
  if (listing.files.size() == before) {
    throw Error(
        "{}: the folder of this class holds no image (.png, .jpg, .jpeg); add some or remove it",
        escaped(folder.string()));
  }
  listing.labels.resize(listing.files.size(), label);
}

// `classes`: of the training part; empty: those that are there.
Listing list_images(const std::string& spec, const fs::path& folder, const Strings& classes) {
  Listing listing;
  const Content content = read_folder(folder);
  if (content.folders.empty()) {
    throw Error(
        "{}: {} has no sub-folders{}; expected one a class, as in {}/CLASS/1.png, or the parts "
        "train and test with the classes in them",
        spec, escaped(folder.string()),
        content.images.empty() ? "" : ", the images lie in it directly", escaped(folder.string()));
  }
  listing.classes = classes.empty() ? content.folders : classes;
  listing.others = content.others;
  for (const std::string& name : content.images) listing.strays.push_back(folder / name);
  for (const std::string& name : content.folders) {
    const auto place = std::lower_bound(listing.classes.begin(), listing.classes.end(), name);
    if (place == listing.classes.end() || *place != name) {
      throw Error("{}: the training part has no such class; its {} classes: {}",
                  escaped((folder / name).string()), listing.classes.size(),
                  support::printable(fmt::format("{}", fmt::join(listing.classes, ", "))));
    }
    collect_class(folder / name, place - listing.classes.begin(), listing);
  }
  return listing;
}

bool is_part_name(const std::string& name) {
  return name == "train" || name == "test" || name == "val";
}

// A folder of classes, not itself a class that happens to be called so. One that holds images
// beside folders is a part when nothing but parts stands beside it.
bool is_part(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return false;
  const Content content = read_folder(folder);
  if (content.folders.empty() || content.images.empty()) return !content.folders.empty();
  return std::ranges::all_of(read_folder(folder.parent_path()).folders, is_part_name);
}

struct Parts {
  fs::path train;
  std::optional<fs::path> test;
};

Parts find_parts(const std::string& spec, const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) throw Error("{}: there is no such folder", spec);
  Parts parts;
  for (const char* name : {"test", "val"}) {
    if (!parts.test && is_part(folder / name)) parts.test = folder / name;
  }
  if (is_part(folder / "train")) {
    parts.train = folder / "train";
    return parts;
  }
  if (parts.test) {
    const fs::path train = folder / "train";
    const Strings strays = fs::is_directory(train, error) ? read_folder(train).images : Strings();
    throw Error("{}: there is a part {} but no part train with the same classes{}", spec,
                escaped(parts.test->string()),
                strays.empty() ? ""
                               : fmt::format("; {} beside its folders makes it look like a class: "
                                             "move the images there into a class, or away",
                                             escaped((train / strays.front()).string())));
  }
  parts.train = folder;
  return parts;
}

// Beside the parts; a part that is called otherwise would be missed.
void tell_unread(const fs::path& folder, const Parts& parts, const std::string& name) {
  if (parts.train == folder) return;
  Strings unread;
  for (const std::string& one : read_folder(folder).folders) {
    const fs::path path = folder / one;
    if (path != parts.train && path != parts.test) unread.push_back(one);
  }
  if (unread.empty()) return;
  support::notice("{}: not read, as they are neither the part train nor test (or val): {}", name,
                  fmt::join(unread, ", "));
}

// Images without a class.
void tell_strays(const Strings& strays, const std::string& name) {
  constexpr size_t kShown = 3;
  if (strays.empty()) return;
  std::string shown;
  for (size_t i = 0; i < strays.size() && i < kShown; ++i) {
    shown += (i > 0 ? ", " : "") + escaped(strays[i]);
  }
  if (strays.size() > kShown) shown += ", ...";
  support::notice(
      "{}: left out {} image{} beside the class folders, which {} no class: {}; move {} into the "
      "folder of a class, or away",
      name, strays.size(), strays.size() == 1 ? "" : "s", strays.size() == 1 ? "has" : "have",
      shown, strays.size() == 1 ? "it" : "them");
}

int thread_count(size_t files) {
  constexpr size_t kFilesPerThread = 64;
  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  return static_cast<int>(std::clamp<size_t>(files / kFilesPerThread, 1, cores));
}

// Throws the Error of the first file in the list that is no image, however many threads look.
void check_headers(const Strings& files) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  size_t first_bad = std::numeric_limits<size_t>::max();
  std::exception_ptr error;
  const auto check = [&] {
    for (size_t i = next++; i < files.size(); i = next++) {
      try {
        read_image_header(MappedFile::open(files[i])->bytes(), files[i]);
      } catch (...) {
        const std::lock_guard lock(mutex);
        next = files.size();
        if (i >= first_bad) continue;
        first_bad = i;
        error = std::current_exception();
      }
    }
  };
  std::vector<std::jthread> threads;
  for (int i = 1; i < thread_count(files.size()); ++i) threads.emplace_back(check);
  check();
  threads.clear();
  if (error) std::rethrow_exception(error);
}

class ImageFolder final : public Dataset {
 public:
  ImageFolder(DatasetInfo info, Listing listing, const ImageSize& size)
      : Dataset(std::move(info)), files_(std::move(listing.files)), size_(size) {
    info_.size = static_cast<int64_t>(files_.size());
    info_.classes = static_cast<int64_t>(listing.classes.size());
    info_.axes = size.channels == 1 ? ImageAxes::kHw : ImageAxes::kHwc;
    info_.sample = {graph::DType::kUint8, {size.height, size.width}};
    if (size.channels != 1) info_.sample.shape.push_back(size.channels);
    info_.label = {graph::DType::kInt64, {}};
    labels_ = graph::Tensor(graph::DType::kInt64, {info_.size});
    std::ranges::copy(listing.labels, labels_.mutable_data<int64_t>().begin());
  }

  std::span<const std::byte> sample(const Pick& pick, std::span<std::byte> room) const override {
    const std::string& name = files_[static_cast<size_t>(pick.index)];
    const auto file = MappedFile::open(name);
    const Image image = decode_image(file->bytes(), size_.channels, name);
    resize_crop(image, size_.height, size_.width,
                {reinterpret_cast<uint8_t*>(room.data()), room.size()});
    return room;
  }

  std::span<const std::byte> label(int64_t index, std::span<std::byte>) const override {
    return labels_.bytes().subspan(static_cast<size_t>(index) * sizeof(int64_t), sizeof(int64_t));
  }
  const graph::Tensor* labels() const override { return &labels_; }

 private:
  Strings files_;
  graph::Tensor labels_;
  ImageSize size_;
};

}  // namespace

bool is_image_name(const std::string& name) {
  std::string end = fs::path(name).extension();
  std::transform(end.begin(), end.end(), end.begin(),
                 [](unsigned char c) { return c < 128 ? static_cast<char>(std::tolower(c)) : c; });
  return !name.starts_with('.') && (end == ".png" || end == ".jpg" || end == ".jpeg");
}

std::shared_ptr<const Dataset> open_image_folder(const std::string& spec, const std::string& folder,
                                                 Split split, const ImageSize& size) {
  CHECK((size.channels == 1 || size.channels == 3) && size.height > 0 && size.width > 0);
  const Parts parts = find_parts(spec, folder);
  if (split == Split::kTest && !parts.test) return nullptr;
  const fs::path place = split == Split::kTrain ? parts.train : *parts.test;
  const Strings classes = split == Split::kTrain ? Strings() : read_folder(parts.train).folders;
  Listing listing = list_images(spec, place, classes);
  check_headers(listing.files);
  DatasetInfo info;
  info.name = fmt::format("{} ({})", spec, split_name(split));
  support::notice("{}: {} images of {} classes in {}, brought to {} x {}", info.name,
                  listing.files.size(), listing.classes.size(), escaped(place.string()), size.width,
                  size.height);
  if (split == Split::kTrain) tell_unread(folder, parts, info.name);
  tell_strays(listing.strays, info.name);
  if (listing.others > 0) {
    support::notice("{}: left out {} files that are not .png, .jpg or .jpeg in a class", info.name,
                    listing.others);
  }
  return std::make_shared<ImageFolder>(std::move(info), std::move(listing), size);
}

}  // namespace sardonyx::runtime
