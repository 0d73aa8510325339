// Where the files stand, how they are called, and what is known of their contents.
#include "runtime/data/known_sets.h"

#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/support/error.h"
#include "runtime/data/cifar.h"
#include "runtime/data/idx.h"
#include "runtime/data/labels.h"

namespace sardonyx::runtime {
namespace {

namespace fs = std::filesystem;

using Strings = std::vector<std::string>;
using DatasetPtr = std::shared_ptr<const Dataset>;

constexpr std::string_view kSystemDir = "/usr/share/datasets";

std::string join(const Strings& parts) { return fmt::format("{}", fmt::join(parts, ", ")); }

bool exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// The folders below `data_dir` (or, without one, the system's) where a known set may stand.
Strings places(const OpenOptions& options, std::string_view name, const Strings& subfolders) {
  if (options.data_dir.empty()) return {fmt::format("{}/{}", kSystemDir, name)};
  Strings result{options.data_dir, fmt::format("{}/{}", options.data_dir, name)};
  for (const std::string& folder : subfolders) result.push_back(options.data_dir + "/" + folder);
  return result;
}

// Each file under one of its accepted spellings, all in the same folder; nothing when none has them
// all.
std::optional<Strings> find_files(const Strings& folders, const std::vector<Strings>& files) {
  for (const std::string& folder : folders) {
    Strings found;
    for (const Strings& spellings : files) {
      for (const std::string& spelling : spellings) {
        if (std::string path = folder + "/" + spelling; exists(path)) {
          found.push_back(path);
          break;
        }
      }
    }
    if (found.size() == files.size()) return found;
  }
  return std::nullopt;
}

[[noreturn]] void fail_missing(std::string_view name, const std::vector<Strings>& files,
                               const Strings& folders, std::string_view remedy) {
  Strings names;
  for (const Strings& spellings : files) names.push_back(spellings.front());
  throw Error("{}: its files are not there: {} (or .gz where usual), all in one of: {}. {}", name,
              join(names), join(folders), remedy);
}

// Labels out of range mean that the file is not what its name says.
DatasetPtr make(Arrays arrays, const std::string& name, Split split, int64_t classes,
                ImageAxes axes) {
  DatasetInfo info;
  info.name = fmt::format("{} ({})", name, split_name(split));
  info.classes = classes;
  info.axes = axes;
  auto dataset = std::make_shared<ArrayDataset>(std::move(arrays), std::move(info));
  check_class_labels(*dataset, {0, {}, classes, std::nullopt});
  return dataset;
}

DatasetPtr open_mnist(const std::string& name, Split split, const OpenOptions& options,
                      const Strings& subfolders, std::string_view remedy) {
  std::string part = split == Split::kTrain ? "train" : "t10k";
  std::vector<Strings> files;
  for (std::string kind : {"-images", "-labels"}) {
    std::string rank = kind == "-images" ? "idx3-ubyte" : "idx1-ubyte";
    files.push_back({part + kind + "-" + rank, part + kind + "-" + rank + ".gz",
                     part + kind + "." + rank, part + kind + "." + rank + ".gz"});
  }
  Strings folders = places(options, name, subfolders);
  std::optional<Strings> found = find_files(folders, files);
  if (!found) fail_missing(name, files, folders, remedy);
  Arrays arrays = read_idx_pair((*found)[0], (*found)[1]);
  if (arrays.samples.rank() != 3) {
    throw Error("{}: images have shape {}, expected [N,28,28]", (*found)[0],
                graph::shape_str(arrays.samples.shape()));
  }
  return make(std::move(arrays), name, split, 10, ImageAxes::kHw);
}

struct CifarSet {
  std::string name;
  std::string folder;  // of the unpacked archive
  std::string archive;
  Strings train;
  Strings test;
  Strings python;  // files of the Python version
  int64_t classes;
  Arrays (*read)(const Strings&);
};

const CifarSet kCifarSets[] = {{"cifar10",
                                "cifar-10-batches-bin",
                                "cifar-10-binary.tar.gz",
                                {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                 "data_batch_4.bin", "data_batch_5.bin"},
                                {"test_batch.bin"},
                                {"data_batch_1", "cifar-10-batches-py/data_batch_1"},
                                10,
                                read_cifar10},
                               {"cifar100",
                                "cifar-100-binary",
                                "cifar-100-binary.tar.gz",
                                {"train.bin"},
                                {"test.bin"},
                                {"train", "cifar-100-python/train"},
                                100,
                                read_cifar100}};

DatasetPtr open_cifar(const CifarSet& set, Split split, const OpenOptions& options) {
  std::vector<Strings> files;
  for (const std::string& file : split == Split::kTrain ? set.train : set.test) {
    files.push_back({file});
  }
  Strings folders = places(options, set.name, {set.folder});
  std::optional<Strings> found = find_files(folders, files);
  if (!found) {
    std::string remedy = fmt::format(
        "Unpack {} (the binary version) and name its folder with --data-dir", set.archive);
    for (const std::string& folder : folders) {
      for (const std::string& file : set.python) {
        if (exists(folder + "/" + file)) remedy += "; " + folder + " holds the Python version";
      }
    }
    fail_missing(set.name, files, folders, remedy);
  }
  return make(set.read(*found), set.name, split, set.classes, ImageAxes::kChw);
}

}  // namespace

std::shared_ptr<const Dataset> open_known_set(const std::string& spec, Split split,
                                              const OpenOptions& options) {
  if (spec == "fashion-mnist") {
    return open_mnist(spec, split, options, {"FashionMNIST/raw"},
                      "Install the Debian package dataset-fashion-mnist, or name the folder with "
                      "--data-dir");
  }
  if (spec == "mnist") {
    return open_mnist(spec, split, options, {"MNIST/raw"},
                      "Name the folder that holds them with --data-dir");
  }
  for (const CifarSet& set : kCifarSets) {
    if (spec == set.name) return open_cifar(set, split, options);
  }
  return nullptr;
}

}  // namespace sardonyx::runtime
