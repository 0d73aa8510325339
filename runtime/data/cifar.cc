// Splits records into one array of images and one per label byte.
#include "runtime/data/cifar.h"

#include <cstring>
#include <memory>
#include <string_view>

#include "graph/support/error.h"
#include "runtime/data/file.h"
#include "runtime/data/labels.h"

namespace sardonyx::runtime {
namespace {

using graph::DType;
using graph::Tensor;

constexpr size_t kPixels = 3 * 32 * 32;

struct LabelByte {
  std::string_view name;
  int classes;
};

struct Format {
  std::string_view name;
  std::string_view other;  // the version it is taken for most easily
  std::vector<LabelByte> labels;

  size_t record() const { return labels.size() + kPixels; }
  size_t other_record() const { return (labels.size() == 1 ? 2 : 1) + kPixels; }
};

bool looks_pickled(std::span<const std::byte> bytes) {
  return bytes.size() >= 3 && bytes[0] == std::byte{0x80} && bytes[1] <= std::byte{5} &&
         bytes.back() == std::byte{'.'};
}

void check_file(std::span<const std::byte> bytes, const Format& format, const std::string& path) {
  if (bytes.empty())
    throw Error("{}: empty file (0 bytes), expected {} records", path, format.name);
  if (bytes.size() % format.record() != 0) {
    if (looks_pickled(bytes)) {
      throw Error(
          "{}: this is the Python (pickle) version of {}, which is never loaded; get the binary "
          "version",
          path, format.name);
    }
    std::string hint;
    if (bytes.size() % format.other_record() == 0) {
      hint = fmt::format("; it is one of records of {} bytes: {}", format.other_record(),
                         format.other);
    }
    throw Error(
        "{}: {} bytes is not a multiple of a {} record ({} bytes): {} bytes are left over{}", path,
        bytes.size(), format.name, format.record(), bytes.size() % format.record(), hint);
  }
  for (size_t at = 0; at < bytes.size(); at += format.record()) {
    for (size_t i = 0; i < format.labels.size(); ++i) {
      int label = std::to_integer<int>(bytes[at + i]);
      if (label < format.labels[i].classes) continue;
      throw Error("{}: {} {} in record {} (offset {}) is out of range, expected 0..{}", path,
                  format.labels[i].name, label, at / format.record(), at + i,
                  format.labels[i].classes - 1);
    }
  }
}

Tensor over(const std::shared_ptr<std::byte>& block, std::vector<int64_t> shape) {
  size_t size = static_cast<size_t>(graph::checked_numel(shape));
  return Tensor::borrow(DType::kUint8, std::move(shape), {block.get(), size}, block);
}

// images, then one array per label byte
std::vector<Tensor> read_records(const std::vector<std::string>& paths, const Format& format) {
  std::vector<std::shared_ptr<const MappedFile>> files;
  size_t records = 0;
  for (const std::string& path : paths) {
    files.push_back(MappedFile::open(path));
    check_file(files.back()->bytes(), format, path);
    records += files.back()->bytes().size() / format.record();
  }
  check_not_empty(static_cast<int64_t>(records), std::string(format.name));
  std::shared_ptr<std::byte> images = allocate_block(records * kPixels);
  std::vector<std::shared_ptr<std::byte>> labels;
  for (size_t i = 0; i < format.labels.size(); ++i) labels.push_back(allocate_block(records));
  size_t n = 0;
  for (const auto& file : files) {
    std::span<const std::byte> bytes = file->bytes();
    for (size_t at = 0; at < bytes.size(); at += format.record(), ++n) {
      for (size_t i = 0; i < labels.size(); ++i) labels[i].get()[n] = bytes[at + i];
      std::memcpy(images.get() + n * kPixels, &bytes[at + labels.size()], kPixels);
    }
  }
  int64_t count = static_cast<int64_t>(records);
  std::vector<Tensor> result{over(images, {count, 3, 32, 32})};
  for (const auto& block : labels) result.push_back(over(block, {count}));
  return result;
}

}  // namespace

Arrays read_cifar10(const std::vector<std::string>& paths) {
  static const Format kFormat{"CIFAR-10", "CIFAR-100", {{"label", 10}}};
  std::vector<Tensor> arrays = read_records(paths, kFormat);
  return {arrays[0], arrays[1], {}};
}

Arrays read_cifar100(const std::vector<std::string>& paths) {
  static const Format kFormat{"CIFAR-100", "CIFAR-10", {{"coarse label", 20}, {"fine label", 100}}};
  std::vector<Tensor> arrays = read_records(paths, kFormat);
  return {arrays[0], arrays[2], arrays[1]};
}

}  // namespace sardonyx::runtime
