#include "graph/tensor_message.h"

#include <algorithm>
#include <cstring>

#include "graph/support/error.h"
#include "graph/support/text.h"

namespace sardonyx::graph {
namespace {

using support::in_quotes;
using wire::Field;
using wire::Reader;
using wire::Span;
using wire::Type;
namespace field = wire::field;

// Bytes of one element in a packed field; 0 for varints.
size_t packed_width(uint32_t number) {
  if (number == field::kTensorFloatData) return 4;
  return number == field::kTensorDoubleData ? 8 : 0;
}

// Numbers per element: complex values are stored as two.
int64_t numbers_per_element(DType dtype) {
  return dtype == DType::kComplex64 || dtype == DType::kComplex128 ? 2 : 1;
}

int64_t count_numbers(const Field& piece, std::span<const std::byte> file,
                      const std::string& label) {
  if (piece.number == field::kTensorStringData || piece.type != Type::kBytes) return 1;
  const auto bytes = file.subspan(piece.body.begin, piece.body.size());
  if (const size_t width = packed_width(piece.number); width != 0) {
    if (bytes.size() % width != 0) {
      throw Error("{}: {} bytes of {} are no whole number of values", label, bytes.size(),
                  payload_field_name(piece.number));
    }
    return static_cast<int64_t>(bytes.size() / width);
  }
  // The last byte of each varint has a clear top bit.
  return std::count_if(bytes.begin(), bytes.end(),
                       [](std::byte b) { return (b & std::byte{0x80}) == std::byte{0}; });
}

// An element that arrived as a varint, stored as `T`. Writers differ in whether narrow types are
// sign-extended, so both readings of the top bit are taken.
template <class T>
void store_narrow(std::byte* out, uint64_t varint, const std::string& label) {
  const auto value = static_cast<int64_t>(varint);
  constexpr int kBits = 8 * sizeof(T);
  if constexpr (kBits < 32) {
    if (value < -(int64_t{1} << (kBits - 1)) || value >= int64_t{1} << kBits) {
      throw Error("{}: the value {} in int32_data doesn't fit {} bits", label, value, kBits);
    }
  }
  const T narrow = static_cast<T>(varint);
  std::memcpy(out, &narrow, sizeof narrow);
}

void store_varint(DType dtype, std::byte* out, uint64_t varint, const std::string& label) {
  switch (dtype_size(dtype)) {
    case 1:
      if (dtype == DType::kBool) varint = varint != 0 ? 1 : 0;
      return store_narrow<uint8_t>(out, varint, label);
    case 2:
      return store_narrow<uint16_t>(out, varint, label);
    case 4:
      return store_narrow<uint32_t>(out, varint, label);
    default:
      return store_narrow<uint64_t>(out, varint, label);
  }
}

Tensor decode_strings(const TensorMessage& tensor, std::span<const std::byte> file) {
  std::vector<std::string> strings;
  for (const Field& piece : tensor.payload) {
    const auto bytes = file.subspan(piece.body.begin, piece.body.size());
    strings.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return Tensor::of_strings(tensor.dims, std::move(strings));
}

Tensor decode_typed(const TensorMessage& tensor, DType dtype, std::span<const std::byte> file,
                    const std::shared_ptr<const void>& keep_alive) {
  const std::string label = tensor_label(tensor);
  const size_t number_size = packed_width(tensor.payload.front().number);
  if (number_size != 0 && tensor.payload.size() == 1 &&
      tensor.payload.front().type == Type::kBytes) {
    const Span body = tensor.payload.front().body;
    return tensor_from_raw(dtype, tensor.dims, file.subspan(body.begin, body.size()), keep_alive);
  }
  Tensor result(dtype, tensor.dims);
  std::byte* out = result.mutable_bytes().data();
  const size_t step = number_size != 0 ? number_size : dtype_size(dtype);
  for (const Field& piece : tensor.payload) {
    if (number_size != 0) {
      std::memcpy(out, file.data() + piece.body.begin, piece.body.size());
      out += piece.body.size();
      continue;
    }
    size_t at = piece.body.begin;
    while (at < piece.body.end) {
      store_varint(dtype, out, wire::read_varint(file, at, piece.body.end), label);
      out += step;
    }
  }
  return result;
}

void check_one_field(const TensorMessage& tensor, DType dtype) {
  const uint32_t typed = typed_field(dtype);
  for (const Field& piece : tensor.payload) {
    const bool raw = piece.number == field::kTensorRawData;
    if (piece.number != tensor.payload.front().number) {
      throw Error("{}: has values in both {} and {}; only one may be used", tensor_label(tensor),
                  payload_field_name(tensor.payload.front().number),
                  payload_field_name(piece.number));
    }
    if ((raw && dtype == DType::kString) || (!raw && piece.number != typed)) {
      throw Error("{}: {} values stand in {}, expected {}", tensor_label(tensor), dtype_name(dtype),
                  payload_field_name(piece.number),
                  dtype == DType::kString
                      ? std::string("string_data")
                      : fmt::format("raw_data or {}", payload_field_name(typed)));
    }
  }
}

}  // namespace

const std::string* TensorMessage::external_entry(std::string_view key) const {
  for (const auto& [name, value] : external_data) {
    if (name == key) return &value;
  }
  return nullptr;
}

std::pair<std::string, std::string> read_string_entry(std::span<const std::byte> file,
                                                      Span message) {
  std::pair<std::string, std::string> entry;
  Reader reader(file, message);
  while (reader.next()) {
    if (reader.field().is(1, Type::kBytes)) entry.first = reader.text();
    if (reader.field().is(2, Type::kBytes)) entry.second = reader.text();
  }
  return entry;
}

TensorMessage read_tensor_message(std::span<const std::byte> file, Span message) {
  TensorMessage tensor;
  Reader reader(file, message);
  while (reader.next()) {
    const Field& f = reader.field();
    switch (f.number) {
      case field::kTensorDims:
        if (f.type == Type::kVarint) tensor.dims.push_back(static_cast<int64_t>(f.value));
        if (f.type == Type::kBytes) {
          for (size_t at = f.body.begin; at < f.body.end;) {
            tensor.dims.push_back(static_cast<int64_t>(wire::read_varint(file, at, f.body.end)));
          }
        }
        break;
      case field::kTensorDataType:
        if (f.type == Type::kVarint) tensor.data_type = static_cast<int32_t>(f.value);
        break;
      case field::kTensorName:
        if (f.type == Type::kBytes) tensor.name = reader.text();
        break;
      case field::kTensorDataLocation:
        if (f.type == Type::kVarint) tensor.external = f.value == 1;
        break;
      case field::kTensorSegment:
        tensor.segmented = true;
        break;
      case field::kTensorExternalData:
        if (f.type == Type::kBytes) tensor.external_data.push_back(read_string_entry(file, f.body));
        break;
      case field::kTensorRawData:
        // Of a repeated singular field the last one counts.
        std::erase_if(tensor.payload, [](const Field& p) { return p.number == 9; });
        [[fallthrough]];
      case field::kTensorStringData:
        if (f.type == Type::kBytes) tensor.payload.push_back(f);
        break;
      case field::kTensorFloatData:
        if (f.type == Type::kBytes || f.type == Type::kFixed32) tensor.payload.push_back(f);
        break;
      case field::kTensorDoubleData:
        if (f.type == Type::kBytes || f.type == Type::kFixed64) tensor.payload.push_back(f);
        break;
      case field::kTensorInt32Data:
      case field::kTensorInt64Data:
      case field::kTensorUint64Data:
        if (f.type == Type::kBytes || f.type == Type::kVarint) tensor.payload.push_back(f);
        break;
      default:
        break;
    }
  }
  // An empty packed field says the same as no field.
  std::erase_if(tensor.payload, [](const Field& p) {
    return p.type == Type::kBytes && p.number != field::kTensorStringData && p.body.size() == 0;
  });
  return tensor;
}

std::string tensor_label(const TensorMessage& tensor) {
  return tensor.name.empty() ? std::string("a tensor without a name")
                             : "tensor " + in_quotes(tensor.name);
}

std::string data_type_name(int64_t type) {
  constexpr const char* kNames[] = {
      "undefined",      "float",    "uint8",        "int8",           "uint16",
      "int16",          "int32",    "int64",        "string",         "bool",
      "float16",        "double",   "uint32",       "uint64",         "complex64",
      "complex128",     "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2",
      "float8e5m2fnuz", "uint4",    "int4",         "float4e2m1",     "float8e8m0",
      "uint2",          "int2"};
  const bool known = type >= 0 && type < static_cast<int64_t>(std::size(kNames));
  return fmt::format("{} ({})", type, known ? kNames[type] : "unknown to ONNX");
}

DType checked_dtype(const TensorMessage& tensor) {
  const int64_t type = tensor.data_type;
  if (type < 1 || type > static_cast<int64_t>(DType::kBFloat16)) {
    throw Error(
        "{}: element type {} is not supported; expected float, double, float16, bfloat16, "
        "bool, string, complex or an integer type of 8 to 64 bits",
        tensor_label(tensor), data_type_name(type));
  }
  return static_cast<DType>(type);
}

int foreign_bits(int64_t data_type) {
  constexpr int kFirst = static_cast<int>(DType::kBFloat16) + 1;
  constexpr int kBits[] = {8, 8, 8, 8, 4, 4, 4, 8, 2, 2};  // float8e4m3fn and on
  const int64_t at = data_type - kFirst;
  return at >= 0 && at < static_cast<int64_t>(std::size(kBits)) ? kBits[at] : 0;
}

int64_t checked_elements(const TensorMessage& tensor) {
  try {
    return checked_numel(tensor.dims);
  } catch (const Error& error) {
    throw Error("{}: {}", tensor_label(tensor), error.what());
  }
}

uint32_t typed_field(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
    case DType::kComplex64:
      return field::kTensorFloatData;
    case DType::kFloat64:
    case DType::kComplex128:
      return field::kTensorDoubleData;
    case DType::kInt64:
      return field::kTensorInt64Data;
    case DType::kUint32:
    case DType::kUint64:
      return field::kTensorUint64Data;
    case DType::kString:
      return field::kTensorStringData;
    default:
      return field::kTensorInt32Data;
  }
}

std::string_view payload_field_name(uint32_t number) {
  switch (number) {
    case field::kTensorFloatData:
      return "float_data";
    case field::kTensorInt32Data:
      return "int32_data";
    case field::kTensorStringData:
      return "string_data";
    case field::kTensorInt64Data:
      return "int64_data";
    case field::kTensorRawData:
      return "raw_data";
    case field::kTensorDoubleData:
      return "double_data";
    case field::kTensorUint64Data:
      return "uint64_data";
    default:
      return "an unknown field";
  }
}

Tensor decode_inline(const TensorMessage& tensor, std::span<const std::byte> file,
                     const std::shared_ptr<const void>& keep_alive) {
  const DType dtype = checked_dtype(tensor);
  const int64_t elements = checked_elements(tensor);
  const std::string label = tensor_label(tensor);
  const auto shape = [&] { return shape_str(tensor.dims); };
  if (tensor.segmented) throw Error("{}: is stored in segments, which is not supported", label);
  if (tensor.payload.empty()) {
    if (elements == 0) {
      return dtype == DType::kString ? Tensor::of_strings(tensor.dims, {})
                                     : Tensor(dtype, tensor.dims);
    }
    throw Error("{}: no data; shape {} needs {} values", label, shape(), elements);
  }
  check_one_field(tensor, dtype);

  const uint32_t number = tensor.payload.front().number;
  if (number == field::kTensorRawData) {
    const Span body = tensor.payload.front().body;
    // Compared by division: the product could exceed 64 bits.
    const size_t size = dtype_size(dtype);
    if (body.size() % size != 0 || static_cast<int64_t>(body.size() / size) != elements) {
      throw Error("{}: raw_data holds {} bytes, but shape {} of {} needs {} values of {} bytes",
                  label, body.size(), shape(), dtype_name(dtype), elements, size);
    }
    return tensor_from_raw(dtype, tensor.dims, file.subspan(body.begin, body.size()), keep_alive);
  }
  int64_t found = 0;
  for (const Field& piece : tensor.payload) found += count_numbers(piece, file, label);
  const int64_t per_element = numbers_per_element(dtype);
  if (found % per_element != 0 || found / per_element != elements) {
    throw Error("{}: {} holds {} values, but shape {} needs {}", label, payload_field_name(number),
                found, shape(), elements);
  }
  if (dtype == DType::kString) return decode_strings(tensor, file);
  return decode_typed(tensor, dtype, file, keep_alive);
}

Tensor tensor_from_raw(DType dtype, std::vector<int64_t> dims, std::span<const std::byte> bytes,
                       const std::shared_ptr<const void>& keep_alive) {
  // A byte other than 0 and 1 must never be read as a C++ bool.
  const auto is_bool = [](std::byte b) { return b <= std::byte{1}; };
  if (dtype != DType::kBool || std::all_of(bytes.begin(), bytes.end(), is_bool)) {
    return Tensor::borrow(dtype, std::move(dims), bytes, keep_alive);
  }
  Tensor copy(dtype, std::move(dims));
  std::transform(bytes.begin(), bytes.end(), copy.mutable_bytes().begin(),
                 [](std::byte b) { return b == std::byte{0} ? b : std::byte{1}; });
  return copy;
}

}  // namespace sardonyx::graph
