#include "graph/tensor_encode.h"

#include <string_view>

#include "graph/support/error.h"
#include "graph/wire.h"

namespace sardonyx::graph {
namespace {

namespace field = wire::field;

std::string_view chars(const Tensor& value) {
  return {reinterpret_cast<const char*>(value.bytes().data()), value.bytes().size()};
}

// Protobuf sign-extends int32 and int64; float16 and the unsigned types count as their bits.
template <class T>
std::string encode_varints(const Tensor& value) {
  std::string out;
  for (const T element : value.data<T>()) wire::append_varint(out, static_cast<uint64_t>(element));
  return out;
}

}  // namespace

std::string encode_packed(const Tensor& value, uint32_t number) {
  switch (value.dtype()) {
    case DType::kFloat32:
    case DType::kFloat64:
    case DType::kComplex64:
    case DType::kComplex128:
      return std::string(chars(value));
    case DType::kBool:
      return encode_varints<bool>(value);
    case DType::kInt8:
      return encode_varints<int8_t>(value);
    case DType::kUint8:
      return encode_varints<uint8_t>(value);
    case DType::kInt16:
      return encode_varints<int16_t>(value);
    case DType::kUint16:
    case DType::kFloat16:
    case DType::kBFloat16:
      return encode_varints<uint16_t>(value);
    case DType::kInt32:
      return encode_varints<int32_t>(value);
    case DType::kUint32:
      return encode_varints<uint32_t>(value);
    case DType::kInt64:
      return encode_varints<int64_t>(value);
    case DType::kUint64:
      return encode_varints<uint64_t>(value);
    case DType::kString:
    case DType::kUndefined:
      break;
  }
  CHECK(false, "{} in field {}", dtype_name(value.dtype()), number);
}

std::string encode_tensor(const std::string& name, const Tensor& value) {
  std::string out;
  std::string dims;
  for (int64_t d : value.shape()) wire::append_varint(dims, static_cast<uint64_t>(d));
  if (!dims.empty()) wire::append_bytes(out, field::kTensorDims, dims);
  wire::append_tag(out, field::kTensorDataType, wire::Type::kVarint);
  wire::append_varint(out, static_cast<uint64_t>(value.dtype()));
  if (value.dtype() == DType::kString) {
    for (const std::string& text : value.strings()) {
      wire::append_bytes(out, field::kTensorStringData, text);
    }
  }
  wire::append_bytes(out, field::kTensorName, name);
  if (value.dtype() != DType::kString) wire::append_bytes(out, field::kTensorRawData, chars(value));
  return out;
}

}  // namespace sardonyx::graph
