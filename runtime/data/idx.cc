// One reader for plain and compressed files: both are taken from front to back.
#include "runtime/data/idx.h"

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "graph/support/error.h"
#include "runtime/data/element.h"
#include "runtime/data/file.h"
#include "runtime/data/inflate.h"
#include "runtime/data/labels.h"

namespace sardonyx::runtime {
namespace {

using graph::DType;
using graph::Tensor;

constexpr std::string_view kTypes =
    "0x08 uint8, 0x09 int8, 0x0B int16, 0x0C int32, 0x0D float, 0x0E double";

DType dtype_of_code(int code) {
  switch (code) {
    case 0x08:
      return DType::kUint8;
    case 0x09:
      return DType::kInt8;
    case 0x0B:
      return DType::kInt16;
    case 0x0C:
      return DType::kInt32;
    case 0x0D:
      return DType::kFloat32;
    case 0x0E:
      return DType::kFloat64;
    default:
      return DType::kUndefined;
  }
}

// The file's bytes in order, decompressed on the way when it is gzip.
class Stream {
 public:
  explicit Stream(const std::string& path) : file_(MappedFile::open(path)), bytes_(file_->bytes()) {
    if (is_gzip(bytes_)) {
      inflater_ = std::make_unique<Inflater>(bytes_, Inflater::Format::kGzip, path);
    }
  }

  bool compressed() const { return inflater_ != nullptr; }
  const std::shared_ptr<const MappedFile>& file() const { return file_; }
  size_t position() const { return position_; }

  size_t read(std::span<std::byte> out) {
    size_t count;
    if (inflater_) {
      count = inflater_->read(out);
    } else {
      count = std::min(out.size(), bytes_.size() - position_);
      std::copy_n(bytes_.begin() + position_, count, out.begin());
    }
    position_ += count;
    return count;
  }
  // The next bytes of an uncompressed file, which must be there, without a copy.
  std::span<const std::byte> view(size_t size) {
    position_ += size;
    return bytes_.subspan(position_ - size, size);
  }
  // Bytes that follow (of a compressed file: at least so many).
  size_t surplus() {
    if (!inflater_) return bytes_.size() - position_;
    std::array<std::byte, 4096> rest;
    return inflater_->read(rest);
  }

 private:
  std::shared_ptr<const MappedFile> file_;
  std::span<const std::byte> bytes_;
  std::unique_ptr<Inflater> inflater_;
  size_t position_ = 0;
};

uint32_t big_endian(const std::byte* p) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | std::to_integer<uint32_t>(p[i]);
  return value;
}

[[noreturn]] void fail_magic(const std::string& path, std::span<const std::byte> magic) {
  std::string text;
  std::string hex;
  for (std::byte b : magic) {
    char c = std::to_integer<char>(b);
    text += c >= 0x20 && c < 0x7f ? c : '.';
    hex += fmt::format("{:02x} ", std::to_integer<int>(b));
  }
  std::string hint;
  if (magic[2] == std::byte{0} && magic[3] == std::byte{0} &&
      dtype_of_code(std::to_integer<int>(magic[1])) != DType::kUndefined) {
    hint = "; the header looks little-endian, IDX is big-endian";
  } else if (magic[0] == std::byte{'<'}) {
    hint = "; it looks like an HTML page";
  }
  throw Error(
      "{}: not an IDX file: the magic at offset 0 is {}(\"{}\"), expected 00 00 TYPE RANK{}", path,
      hex, text, hint);
}

struct Header {
  DType dtype = DType::kUndefined;
  std::vector<int64_t> shape;
};

Header read_header(Stream& stream, const std::string& path) {
  std::array<std::byte, 4> magic;
  size_t found = stream.read(magic);
  if (found == 0) throw Error("{}: empty file (0 bytes), expected an IDX file", path);
  if (found < magic.size()) {
    throw Error("{}: truncated header: {} bytes, expected at least 4", path, found);
  }
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0}) fail_magic(path, magic);
  Header header;
  int code = std::to_integer<int>(magic[2]);
  header.dtype = dtype_of_code(code);
  if (header.dtype == DType::kUndefined) {
    throw Error("{}: unknown element type code 0x{:02X} at offset 2, expected one of {}", path,
                code, kTypes);
  }
  int rank = std::to_integer<int>(magic[3]);
  std::vector<std::byte> dims(4 * static_cast<size_t>(rank));
  found = stream.read(dims);
  if (found < dims.size()) {
    throw Error("{}: truncated header: rank {} needs {} bytes, found {}", path, rank,
                4 + dims.size(), 4 + found);
  }
  for (int i = 0; i < rank; ++i) header.shape.push_back(big_endian(&dims[4 * i]));
  return header;
}

[[noreturn]] void fail_size(const std::string& path, const Header& header, size_t data_offset,
                            uint64_t expected, const std::string& found) {
  throw Error(
      "{}: the header declares {}{}: {} bytes of data after {} bytes of header, {} in all; found "
      "{}",
      path, graph::dtype_name(header.dtype), graph::shape_str(header.shape), expected, data_offset,
      data_offset + expected, found);
}

}  // namespace

Tensor read_idx(const std::string& path) {
  Stream stream(path);
  Header header = read_header(stream, path);
  size_t element = graph::dtype_size(header.dtype);
  size_t data_offset = stream.position();
  std::optional<uint64_t> expected = array_bytes(header.shape, element);
  if (!expected) {
    throw Error("{}: the header declares {}, more elements than any file can hold", path,
                graph::shape_str(header.shape));
  }
  std::span<const std::byte> file = stream.file()->bytes();
  if (!stream.compressed()) {
    if (file.size() - data_offset < *expected) {
      fail_size(path, header, data_offset, *expected,
                fmt::format("{}, the file is truncated", file.size()));
    }
  } else {
    check_expansion(file.size(), *expected, path);
  }

  std::span<const std::byte> data;
  std::shared_ptr<const void> owner;
  if (!stream.compressed() && element == 1) {
    data = stream.view(*expected);
    owner = stream.file();
  } else {
    std::shared_ptr<std::byte> block = allocate_block(*expected);
    std::span<std::byte> out(block.get(), *expected);
    if (size_t found = stream.read(out); found < *expected) {
      fail_size(path, header, data_offset, *expected,
                fmt::format("{} after decompression, the file is truncated", data_offset + found));
    }
    reverse_elements(out, element);
    data = out;
    owner = block;
  }
  if (size_t surplus = stream.surplus(); surplus > 0) {
    fail_size(path, header, data_offset, *expected,
              fmt::format("{}{} trailing bytes", stream.compressed() ? "at least " : "", surplus));
  }
  return Tensor::borrow(header.dtype, header.shape, data, owner);
}

Arrays read_idx_pair(const std::string& images, const std::string& labels) {
  Arrays arrays{read_idx(images), read_idx(labels), {}};
  if (arrays.samples.rank() <= 1 && arrays.labels.rank() > 1) {
    throw Error("{} has shape {} and {} has shape {}: the files of images and labels look swapped",
                images, graph::shape_str(arrays.samples.shape()), labels,
                graph::shape_str(arrays.labels.shape()));
  }
  if (arrays.samples.rank() < 2) {
    throw Error("{}: samples of rank {} (shape {}), expected at least rank 2: [N,...]", images,
                arrays.samples.rank(), graph::shape_str(arrays.samples.shape()));
  }
  if (arrays.labels.rank() != 1) {
    throw Error("{}: labels of rank {} (shape {}), expected rank 1: [N]", labels,
                arrays.labels.rank(), graph::shape_str(arrays.labels.shape()));
  }
  check_not_empty(arrays.samples.shape()[0], images);
  check_same_count(arrays.samples.shape()[0], images, arrays.labels.shape()[0], labels);
  return arrays;
}

}  // namespace sardonyx::runtime
