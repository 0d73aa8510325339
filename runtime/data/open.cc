// One function per kind of source; each finds its files and says what is known about them.
#include "runtime/data/open.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/support/error.h"
#include "runtime/data/idx.h"
#include "runtime/data/known_sets.h"
#include "runtime/data/labels.h"
#include "runtime/data/npy.h"

namespace sardonyx::runtime {
namespace {

namespace fs = std::filesystem;

using Strings = std::vector<std::string>;
using DatasetPtr = std::shared_ptr<const Dataset>;

constexpr std::string_view kKinds =
    "fashion-mnist, mnist, cifar10, cifar100, idx:DIR, npz:FILE, folder:DIR, synthetic[:N]";

std::string join(const Strings& parts) {
  return parts.empty() ? "nothing" : fmt::format("{}", fmt::join(parts, ", "));
}

// Files that say nothing about their contents.
DatasetPtr make(Arrays arrays, const std::string& spec, Split split, ImageAxes axes,
                FiniteCheck finite) {
  DatasetInfo info;
  info.name = fmt::format("{} ({})", spec, split_name(split));
  info.axes = axes;
  if (finite == FiniteCheck::kOn) {
    check_finite(arrays.samples, graph::DType::kFloat32, info.name + ": samples");
    check_finite(arrays.labels, graph::DType::kFloat32, info.name + ": labels");
  }
  return std::make_shared<ArrayDataset>(std::move(arrays), std::move(info));
}

// With a third axis beside height and width only the user knows the order.
ImageAxes axes_of(const graph::Tensor& samples, const OpenOptions& options) {
  return samples.rank() == 4 ? options.axes : ImageAxes::kUnknown;
}

bool contains(const std::string& text, std::string_view word) {
  return text.find(word) != text.npos;
}

// Names of plain files, sorted; of FILE and FILE.gz only FILE.
Strings data_files(const std::string& folder, const std::string& prefix) {
  std::error_code error;
  Strings names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    std::string name = entry.path().filename();
    if (name.starts_with(prefix) && entry.is_regular_file(error)) names.push_back(name);
  }
  if (error) throw Error("idx:{}: cannot read the folder: {}", folder, error.message());
  std::sort(names.begin(), names.end());
  Strings result;
  for (const std::string& name : names) {
    bool twin = name.ends_with(".gz") &&
                std::binary_search(names.begin(), names.end(), name.substr(0, name.size() - 3));
    if (!twin) result.push_back(name);
  }
  return result;
}

enum class Part { kTrain, kTest, kNone };

Part part_of(const std::string& name) {
  if (contains(name, "train")) return Part::kTrain;
  if (contains(name, "t10k") || contains(name, "test")) return Part::kTest;
  return Part::kNone;
}

// The one file of this kind; "" when there is none.
std::string pick(const Strings& names, Part part, std::string_view word, const std::string& where) {
  Strings fitting;
  for (const std::string& name : names) {
    if (part_of(name) == part && contains(name, word)) fitting.push_back(name);
  }
  if (fitting.size() > 1) {
    throw Error("{}: several files could be the {}: {}. Choose with idx:DIR/PREFIX", where, word,
                join(fitting));
  }
  return fitting.empty() ? "" : fitting[0];
}

DatasetPtr open_idx(const std::string& spec, const std::string& path, Split split,
                    const OpenOptions& options) {
  fs::path folder = path;
  std::string prefix;
  if (!fs::is_directory(folder)) {
    prefix = folder.filename();
    folder = folder.has_parent_path() ? folder.parent_path() : fs::path(".");
  }
  if (!fs::is_directory(folder)) throw Error("{}: there is no folder {}", spec, path);
  Strings names = data_files(folder, prefix);
  bool parts = std::any_of(names.begin(), names.end(),
                           [](const std::string& name) { return part_of(name) != Part::kNone; });
  if (!parts && split == Split::kTest) return nullptr;
  Part part = !parts ? Part::kNone : (split == Split::kTrain ? Part::kTrain : Part::kTest);
  std::string images = pick(names, part, "images", spec);
  std::string labels = pick(names, part, "labels", spec);
  if (images.empty() && labels.empty() && part == Part::kTest) return nullptr;
  if (images.empty() || labels.empty()) {
    throw Error(
        "{}: no file for the {} of the {} part in {}: names must contain \"images\" or \"labels\", "
        "and "
        "\"train\" or \"t10k\"/\"test\" when there are both parts. Found: {}",
        spec, images.empty() ? "images" : "labels", split_name(split), folder.string(),
        join(names));
  }
  Arrays arrays = read_idx_pair(folder / images, folder / labels);
  ImageAxes axes = arrays.samples.rank() == 3 ? ImageAxes::kHw : axes_of(arrays.samples, options);
  return make(std::move(arrays), spec, split, axes, options.finite);
}

const NamedArray* find_array(const std::vector<NamedArray>& arrays, const Strings& names) {
  for (const std::string& name : names) {
    for (const NamedArray& array : arrays) {
      if (array.name == name) return &array;
    }
  }
  return nullptr;
}

// "x" as x_train and train_x, for every name.
Strings with_part(const Strings& names, std::string_view part) {
  Strings result;
  for (const std::string& name : names) {
    result.push_back(fmt::format("{}_{}", name, part));
    result.push_back(fmt::format("{}_{}", part, name));
  }
  return result;
}

DatasetPtr open_npz(const std::string& spec, const std::string& path, Split split,
                    const OpenOptions& options) {
  static const Strings kSamples{"images", "samples", "inputs", "data", "x", "X"};
  static const Strings kLabels{"labels", "targets", "y", "Y"};
  std::vector<NamedArray> arrays = read_npz(path);
  std::string_view part = split_name(split);
  bool parts = find_array(arrays, with_part(kSamples, "train")) != nullptr ||
               find_array(arrays, with_part(kSamples, "test")) != nullptr;
  const NamedArray* samples = find_array(arrays, parts ? with_part(kSamples, part) : kSamples);
  const NamedArray* labels = find_array(arrays, parts ? with_part(kLabels, part) : kLabels);
  if (split == Split::kTest && (!parts || (samples == nullptr && labels == nullptr))) {
    return nullptr;
  }
  if (samples == nullptr || labels == nullptr) {
    Strings found;
    for (const NamedArray& array : arrays) found.push_back(array.name);
    throw Error(
        "{}: no array with the {} of the {} part. Accepted: {}; also with _train and _test (or "
        "train_ and "
        "test_). Found: {}",
        spec, samples == nullptr ? "samples" : "labels", part,
        join(samples == nullptr ? kSamples : kLabels), join(found));
  }
  return make({samples->array, labels->array, {}}, spec, split, axes_of(samples->array, options),
              options.finite);
}

DatasetPtr open_synthetic(const std::string& spec, std::string_view count, Split split,
                          const OpenOptions& options) {
  SyntheticTask task = options.synthetic;
  if (task.sample_shape.size() == 3) task.axes = options.axes;
  if (spec.find(':') != spec.npos) {
    auto [stop, code] = std::from_chars(count.begin(), count.end(), task.samples);
    if (code != std::errc() || stop != count.end() || task.samples <= 0) {
      throw Error("--data {}: \"{}\" is not a number of samples", spec, count);
    }
  }
  return make_synthetic(task, split);
}

// What a file or a kind without its place was probably meant as.
std::string form_hint(const std::string& spec, const std::string& kind) {
  const std::string end = fs::path(spec).extension();
  std::error_code error;
  if (kind == "npz") return "; give the file behind the colon, as npz:data.npz";
  if (kind == "idx" || kind == "folder") {
    return fmt::format("; give the folder behind the colon, as {}:data", kind);
  }
  if (end == ".npz") return "; a file of arrays is npz:" + spec;
  if (end == ".npy") return "; arrays go into one file, as numpy.savez writes it: npz:data.npz";
  if (fs::is_directory(spec, error))
    return fmt::format("; a folder is idx:{0} or folder:{0}", spec);
  return "";
}

}  // namespace

std::shared_ptr<const Dataset> open_dataset(const std::string& spec, Split split,
                                            const OpenOptions& options) {
  size_t colon = spec.find(':');
  std::string kind = spec.substr(0, colon);
  std::string rest = colon == spec.npos ? "" : spec.substr(colon + 1);
  if (DatasetPtr known = open_known_set(spec, split, options)) return known;
  if (kind == "idx" && !rest.empty()) return open_idx(spec, rest, split, options);
  if (kind == "npz" && !rest.empty()) return open_npz(spec, rest, split, options);
  if (kind == "folder" && !rest.empty()) {
    return open_image_folder(spec, rest, split, options.images);
  }
  if (kind == "synthetic") return open_synthetic(spec, rest, split, options);
  throw Error("--data {}: unknown, expected one of {}{}", spec, kKinds, form_hint(spec, kind));
}

}  // namespace sardonyx::runtime
