// One function per kind of source; each finds its files and says what is known about them.
#include "runtime/data/open.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
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
    "fashion-mnist, mnist, cifar10, cifar100, idx:DIR, npz:FILE, npy:DIR, folder:DIR, "
    "synthetic[:N]";

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

// The arrays of a file or a folder, by name.
class ArraySource {
 public:
  ArraySource(std::string spec, std::vector<NamedArray> arrays, const OpenOptions& options)
      : spec_(std::move(spec)), arrays_(std::move(arrays)), options_(options) {
    if (options_.inputs.size() > 1) {
      for (const std::string& input : options_.inputs) samples_.push_back({input});
      return;
    }
    static const Strings kSamples{"images", "samples", "inputs", "data", "x", "X"};
    samples_.push_back(options_.inputs);
    samples_[0].insert(samples_[0].end(), kSamples.begin(), kSamples.end());
  }

  DatasetPtr open(Split split) const {
    const bool parts = has_part("train") || has_part("test");
    const std::string_view part = parts ? split_name(split) : "";
    const graph::Tensor* labels = find(names_of_labels(), part);
    std::vector<const graph::Tensor*> samples;
    for (const Strings& names : samples_) samples.push_back(find(names, part));
    const bool none = labels == nullptr && std::ranges::all_of(samples, std::logical_not());
    if (split == Split::kTest && (!parts || none)) return nullptr;
    for (size_t i = 0; i < samples.size(); ++i) {
      if (samples[i] == nullptr) fail_missing(what_of(i), samples_[i], split);
    }
    const bool labelled = options_.labels == LabelUse::kNeeded;
    if (labels == nullptr && labelled) fail_missing("the labels", names_of_labels(), split);
    DatasetPtr first = make({*samples[0], labelled ? *labels : graph::Tensor(), {}}, spec_, split,
                            axes_of(*samples[0], options_), options_.finite);
    if (samples.size() == 1) return first;
    std::vector<Companion> others;
    for (size_t i = 1; i < samples.size(); ++i) {
      const std::string& input = options_.inputs[i];
      others.push_back({input, make({*samples[i], {}, {}}, fmt::format("{}: {}", spec_, input),
                                    split, ImageAxes::kUnknown, options_.finite)});
    }
    return std::make_shared<JoinedDataset>(std::move(first), std::move(others));
  }

 private:
  // What an input of the model is called is no name of labels.
  Strings names_of_labels() const {
    Strings names{"labels", "targets", "y", "Y"};
    std::erase_if(names, [&](const std::string& name) {
      return std::ranges::find(options_.inputs, name) != options_.inputs.end();
    });
    return names;
  }

  // "x" as x_train and train_x, or as it is where there are no parts.
  const graph::Tensor* find(const Strings& names, std::string_view part) const {
    for (const std::string& name : names) {
      const std::string behind = part.empty() ? name : fmt::format("{}_{}", name, part);
      const std::string before = part.empty() ? name : fmt::format("{}_{}", part, name);
      for (const NamedArray& array : arrays_) {
        if (array.name == behind || array.name == before) return &array.array;
      }
    }
    return nullptr;
  }

  bool has_part(std::string_view part) const {
    return std::ranges::any_of(samples_,
                               [&](const Strings& names) { return find(names, part) != nullptr; });
  }

  std::string what_of(size_t input) const {
    return samples_.size() == 1 ? "the samples"
                                : fmt::format("what the input '{}' takes", options_.inputs[input]);
  }

  [[noreturn]] void fail_missing(const std::string& what, const Strings& accepted,
                                 Split split) const {
    Strings found;
    for (const NamedArray& array : arrays_) found.push_back(array.name);
    throw Error(
        "{}: no array with {} of the {} part. Accepted: {}; also with _train and _test (or train_ "
        "and test_). Found: {}",
        spec_, what, split_name(split), join(accepted), join(found));
  }

  std::string spec_;
  std::vector<NamedArray> arrays_;
  const OpenOptions& options_;
  std::vector<Strings> samples_;  // names that are accepted, by input
};

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
  DatasetPtr first = make_synthetic(task, split);
  if (options.synthetic_companions.empty()) return first;
  std::vector<Companion> others;
  for (size_t i = 0; i < options.synthetic_companions.size(); ++i) {
    SyntheticTask other = options.synthetic_companions[i];
    other.samples = task.samples;
    others.push_back({options.inputs.at(i + 1), make_synthetic(other, split)});
  }
  return std::make_shared<JoinedDataset>(std::move(first), std::move(others));
}

// What a file or a kind without its place was probably meant as.
std::string form_hint(const std::string& spec, const std::string& kind) {
  const std::string end = fs::path(spec).extension();
  std::error_code error;
  if (kind == "npz") return "; give the file behind the colon, as npz:data.npz";
  if (kind == "idx" || kind == "folder" || kind == "npy") {
    return fmt::format("; give the folder behind the colon, as {}:data", kind);
  }
  if (end == ".npz") return "; a file of arrays is npz:" + spec;
  if (end == ".npy") {
    return "; arrays go into one file, as numpy.savez writes it: npz:data.npz, or into one folder: "
           "npy:data";
  }
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
  if (kind == "npz" && !rest.empty()) {
    return ArraySource(spec, read_npz(rest), options).open(split);
  }
  if (kind == "npy" && !rest.empty()) {
    return ArraySource(spec, read_npy_folder(rest), options).open(split);
  }
  if (kind == "folder" && !rest.empty()) {
    return open_image_folder(spec, rest, split, options.images);
  }
  if (kind == "synthetic") return open_synthetic(spec, rest, split, options);
  throw Error("--data {}: unknown, expected one of {}{}", spec, kKinds, form_hint(spec, kind));
}

}  // namespace sardonyx::runtime
