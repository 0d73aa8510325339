// Attributes and tensor data in text. Everything reads back bit for bit: floats are written as the
// shortest decimal of their own width, NaNs with their bits.
#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "graph/print.h"
#include "graph/support/error.h"
#include "graph/text.h"

namespace sardonyx::graph {
namespace {

// An attribute's float must not look like an int: "1.0", "1e+20", "inf".
std::string with_point(std::string number) {
  return number.find_first_of(".en") == std::string::npos ? number + ".0" : number;
}

std::string attribute_float(double value) {
  const auto narrow = static_cast<float>(value);
  const auto wide = static_cast<double>(narrow);
  if (std::memcmp(&wide, &value, sizeof value) == 0) return with_point(float_text(narrow));
  return std::isnan(value) ? double_text(value) : with_point(double_text(value)) + "d";
}

template <class T, class Text>
std::string list(std::string_view kind, const std::vector<T>& values, Text&& text) {
  if (values.empty()) return fmt::format("{}[]", kind);
  std::string out;
  for (const T& value : values) out += (out.empty() ? "[" : ", ") + text(value);
  return out + "]";
}

struct AttributePrinter {
  std::string operator()(int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const { return attribute_float(value); }
  std::string operator()(const std::string& value) const { return quote(value); }
  std::string operator()(const std::vector<int64_t>& values) const {
    return list("ints", values, [](int64_t value) { return fmt::format("{}", value); });
  }
  std::string operator()(const std::vector<double>& values) const {
    return list("floats", values, attribute_float);
  }
  std::string operator()(const std::vector<std::string>& values) const {
    return list("strings", values, [](const std::string& value) { return quote(value); });
  }
  std::string operator()(const Tensor& value) const {
    if (!value.defined()) return "undefined";
    return value.type().str() + " " + data_text(value, -1);
  }
  std::string operator()(const GraphAttribute& value) const {
    return fmt::format(
        "graph({}, {})", quote(value.serialized),
        list("strings", value.outer_values, [](const std::string& name) { return quote(name); }));
  }
  std::string operator()(const AttributeReference& value) const {
    return "@" + quote_name(value.name);
  }
};

std::string half_text(float value, uint16_t bits, uint16_t plain_nan) {
  if (!std::isnan(value)) return float_text(value);
  return bits == plain_nan ? "nan" : fmt::format("nan({:#06x})", bits);
}

// The elements of `tensor`, read as T and written by `text`.
template <class T, class Text>
std::string numbers(const Tensor& tensor, Text&& text) {
  const std::span<const std::byte> bytes = tensor.bytes();
  std::string out = "{";
  for (size_t at = 0; at < bytes.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    if (at != 0) out += ", ";
    out += text(value);
  }
  return out + "}";
}

template <class T>
std::string integers(const Tensor& tensor) {
  return numbers<T>(tensor, [](T value) { return fmt::format("{}", value); });
}

}  // namespace

std::string data_text(const Tensor& tensor, int64_t max_elements) {
  if (max_elements >= 0 && tensor.numel() > max_elements) return "{...}";
  switch (tensor.dtype()) {
    case DType::kFloat32:
    case DType::kComplex64:  // real and imaginary parts in turn
      return numbers<float>(tensor, float_text);
    case DType::kFloat64:
    case DType::kComplex128:
      return numbers<double>(tensor, double_text);
    case DType::kFloat16:
      return numbers<uint16_t>(
          tensor, [](uint16_t bits) { return half_text(half_to_float(bits), bits, 0x7e00); });
    case DType::kBFloat16:
      return numbers<uint16_t>(
          tensor, [](uint16_t bits) { return half_text(bfloat16_to_float(bits), bits, 0x7fc0); });
    case DType::kInt8:
      return integers<int8_t>(tensor);
    case DType::kInt16:
      return integers<int16_t>(tensor);
    case DType::kInt32:
      return integers<int32_t>(tensor);
    case DType::kInt64:
      return integers<int64_t>(tensor);
    case DType::kUint8:
    case DType::kBool:  // 0 and 1; a file may hold other bytes
      return integers<uint8_t>(tensor);
    case DType::kUint16:
      return integers<uint16_t>(tensor);
    case DType::kUint32:
      return integers<uint32_t>(tensor);
    case DType::kUint64:
      return integers<uint64_t>(tensor);
    case DType::kString: {
      std::string out;
      for (const std::string& text : tensor.strings())
        out += (out.empty() ? "" : ", ") + quote(text);
      return "{" + out + "}";
    }
    case DType::kUndefined:
      break;
  }
  CHECK(false, "a tensor without a type has no text");
}

std::string print(const Attribute& attribute) { return std::visit(AttributePrinter{}, attribute); }

}  // namespace sardonyx::graph
