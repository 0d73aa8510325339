// Writing .npy: the header of version 1.0, then the elements as they are.
#include <map>

#include "graph/onnx_export.h"
#include "graph/support/error.h"
#include "runtime/data/npy.h"

namespace sardonyx::runtime {

namespace {

// numpy's name of an element type; little-endian.
const char* descr_of(graph::DType dtype) {
  using graph::DType;
  static const std::map<DType, const char*> kNames = {
      {DType::kFloat32, "<f4"}, {DType::kFloat64, "<f8"}, {DType::kFloat16, "<f2"},
      {DType::kInt8, "|i1"},    {DType::kInt16, "<i2"},   {DType::kInt32, "<i4"},
      {DType::kInt64, "<i8"},   {DType::kUint8, "|u1"},   {DType::kUint16, "<u2"},
      {DType::kUint32, "<u4"},  {DType::kUint64, "<u8"},  {DType::kBool, "|b1"},
  };
  const auto it = kNames.find(dtype);
  if (it == kNames.end()) throw Error("npy files have no type for {}", graph::dtype_name(dtype));
  return it->second;
}

// The magic, version and length fields take 10 bytes; the data start at a multiple of this.
constexpr size_t kAlignment = 64;

}  // namespace

void write_npy(const std::string& path, const graph::Tensor& tensor) {
  std::string shape;
  for (const int64_t size : tensor.shape()) shape += fmt::format("{},", size);
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
                                   descr_of(tensor.dtype()), shape);
  header.resize((header.size() + 11 + kAlignment - 1) / kAlignment * kAlignment - 11, ' ');
  header += '\n';
  std::string bytes = "\x93NUMPY";
  bytes += {'\x01', '\x00'};
  bytes += {static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  bytes += header;
  const auto data = tensor.bytes();
  bytes.append(reinterpret_cast<const char*>(data.data()), data.size());
  graph::write_file_atomically(path, bytes);
}

}  // namespace sardonyx::runtime
