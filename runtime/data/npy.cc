// The data part: size check, byte order, axis order.
#include "runtime/data/npy.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "graph/support/bytes.h"
#include "graph/support/error.h"
#include "runtime/data/element.h"
#include "runtime/data/file.h"
#include "runtime/data/npy_header.h"
#include "runtime/data/zip.h"

namespace sardonyx::runtime {
namespace {

using graph::DType;
using graph::Tensor;

constexpr std::string_view kSuffix = ".npy";

bool is_complex(DType dtype) { return dtype == DType::kComplex64 || dtype == DType::kComplex128; }

// Elements of a column-major array of `shape`, row-major.
void reorder_fortran(std::span<const std::byte> from, const std::vector<int64_t>& shape,
                     size_t element, std::span<std::byte> to) {
  std::vector<int64_t> index(shape.size(), 0);
  std::vector<int64_t> stride(shape.size());
  int64_t step = 1;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    stride[axis] = step;
    step *= shape[axis];
  }
  int64_t source = 0;
  for (size_t out = 0; out < to.size(); out += element) {
    std::memcpy(&to[out], &from[static_cast<size_t>(source) * element], element);
    for (size_t axis = shape.size(); axis-- > 0;) {
      source += stride[axis];
      if (++index[axis] < shape[axis]) break;
      source -= stride[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

// A bool of C++ must be 0 or 1.
void check_bools(std::span<const std::byte> data, size_t offset, const std::string& name) {
  for (size_t i = 0; i < data.size(); ++i) {
    if (data[i] > std::byte{1}) {
      throw Error("{}: value {} of a bool array at offset {}, expected 0 or 1", name,
                  std::to_integer<int>(data[i]), offset + i);
    }
  }
}

// `owner` keeps `bytes`.
Tensor parse_npy(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                 const std::string& name) {
  NpyHeader header = parse_npy_header(bytes, name);
  size_t element = graph::dtype_size(header.dtype);
  std::optional<uint64_t> expected = array_bytes(header.shape, element);
  size_t found = bytes.size() - header.data_offset;
  std::string type =
      fmt::format("{}{}", graph::dtype_name(header.dtype), graph::shape_str(header.shape));
  if (!expected || *expected > found) {
    throw Error(
        "{}: the header declares {}: {} bytes of data at offset {}, found {}; the file is "
        "truncated",
        name, type, expected ? std::to_string(*expected) : "more than 2^62", header.data_offset,
        found);
  }
  if (*expected < found) {
    throw Error(
        "{}: the header declares {}: {} bytes of data at offset {}, found {}: {} trailing bytes",
        name, type, *expected, header.data_offset, found, found - *expected);
  }
  std::span<const std::byte> data = bytes.subspan(header.data_offset);
  if (header.dtype == DType::kBool) check_bools(data, header.data_offset, name);
  size_t number = is_complex(header.dtype) ? element / 2 : element;
  bool swap = header.order == ByteOrder::kBig && number > 1;
  bool reorder = header.fortran && header.shape.size() > 1 && !data.empty();
  bool aligned = reinterpret_cast<uintptr_t>(data.data()) % number == 0;
  if (!swap && !reorder && aligned) {
    return Tensor::borrow(header.dtype, header.shape, data, std::move(owner));
  }
  std::shared_ptr<std::byte> block = allocate_block(data.size());
  std::span<std::byte> out(block.get(), data.size());
  if (reorder) {
    reorder_fortran(data, header.shape, element, out);
  } else {
    copy_bytes(out.data(), data.data(), data.size());
  }
  if (swap) reverse_elements(out, number);
  return Tensor::borrow(header.dtype, header.shape, out, block);
}

}  // namespace

Tensor read_npy(const std::string& path) {
  std::shared_ptr<const MappedFile> file = MappedFile::open(path);
  return parse_npy(file->bytes(), file, path);
}

std::vector<NamedArray> read_npz(const std::string& path) {
  ZipArchive archive(path);
  std::vector<NamedArray> arrays;
  for (const ZipArchive::Member& member : archive.members()) {
    if (!member.name.ends_with(kSuffix)) {
      throw Error("{}: member '{}' is not an .npy array; an .npz file holds nothing else", path,
                  member.name);
    }
    ZipArchive::Content content = archive.read(member);
    std::string name = member.name.substr(0, member.name.size() - kSuffix.size());
    Tensor array = parse_npy(content.bytes, content.owner, path + ": " + member.name);
    arrays.push_back({std::move(name), std::move(array)});
  }
  if (arrays.empty()) throw Error("{}: the archive is empty, expected .npy arrays", path);
  return arrays;
}

std::vector<NamedArray> read_npy_folder(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<NamedArray> arrays;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    const fs::path& file = entry.path();
    if (file.extension() == kSuffix) arrays.push_back({file.stem().string(), read_npy(file)});
  }
  if (error) throw Error("{}: cannot read the folder: {}", path, error.message());
  if (arrays.empty()) throw Error("{}: the folder has no .npy files", path);
  std::ranges::sort(arrays, {}, &NamedArray::name);
  return arrays;
}

}  // namespace sardonyx::runtime
