// Numbers of a tensor in another numeric type. Every conversion rounds once: what goes to float16
// or bfloat16 passes through float rounded to odd, which can't disturb the final rounding to
// nearest even.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "graph/support/error.h"
#include "graph/tensor.h"

namespace sardonyx::graph {
namespace {

// Half-precision elements, as their own types so that templates can tell them from uint16.
struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

template <class T>
T load(const std::byte* at) {  // `at` may be misaligned
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Calls `body` with an element of the C++ type behind a numeric DType.
template <class Body>
decltype(auto) with_element(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::kFloat32:
      return body(float{});
    case DType::kFloat64:
      return body(double{});
    case DType::kFloat16:
      return body(Half{});
    case DType::kBFloat16:
      return body(BFloat16{});
    case DType::kInt8:
      return body(int8_t{});
    case DType::kInt16:
      return body(int16_t{});
    case DType::kInt32:
      return body(int32_t{});
    case DType::kInt64:
      return body(int64_t{});
    case DType::kUint8:
      return body(uint8_t{});
    case DType::kUint16:
      return body(uint16_t{});
    case DType::kUint32:
      return body(uint32_t{});
    case DType::kUint64:
      return body(uint64_t{});
    case DType::kBool:
      return body(bool{});
    default:
      throw Error("{} values are not numbers that can be converted", dtype_name(dtype));
  }
}

template <class T>
auto load_number(const std::byte* at) {
  if constexpr (std::is_same_v<T, Half>) {
    return half_to_float(load<uint16_t>(at));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return bfloat16_to_float(load<uint16_t>(at));
  } else if constexpr (std::is_same_v<T, bool>) {
    return load<uint8_t>(at) != 0;
  } else {
    return load<T>(at);
  }
}

// Truncates; out of range saturates, NaN is 0 (the plain conversion is undefined there).
template <class To, class From>
To truncate(From value) {
  constexpr From kTwo = 2;
  const From above = std::ldexp(kTwo, std::numeric_limits<To>::digits - 1);  // max + 1, exact
  if (std::isnan(value)) return 0;
  if (value >= above) return std::numeric_limits<To>::max();
  if (value <= static_cast<From>(std::numeric_limits<To>::min())) {
    return std::numeric_limits<To>::min();
  }
  return static_cast<To>(value);
}

// Float with the last bit set when the value lies between two floats. long double holds every
// double and 64-bit integer exactly.
float round_to_odd(long double value) {
  float rounded = static_cast<float>(value);
  if (std::isnan(rounded) || rounded == value) return rounded;
  const long double size = std::fabs(value);
  // Towards zero first, then odd.
  if (std::fabs(rounded) > size) rounded = std::nextafter(rounded, 0.0F);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(rounded) | 1U);
}

template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<To, Half>) {
    return {float_to_half(round_to_odd(value))};
  } else if constexpr (std::is_same_v<To, BFloat16>) {
    return {float_to_bfloat16(round_to_odd(value))};
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From{};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return truncate<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

template <class To>
To element(const Tensor& tensor, int64_t i) {
  CHECK(i >= 0 && i < tensor.numel(), "element {} of {}", i, shape_str(tensor.shape()));
  return with_element(tensor.dtype(), [&](auto from) {
    return convert<To>(load_number<decltype(from)>(tensor.bytes().data() + i * sizeof from));
  });
}

template <class To>
std::vector<To> elements(const Tensor& tensor) {
  std::vector<To> out(tensor.numel());
  with_element(tensor.dtype(), [&](auto from) {
    const std::byte* at = tensor.bytes().data();
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = convert<To>(load_number<decltype(from)>(at + i * sizeof from));
    }
  });
  return out;
}

}  // namespace

double Tensor::as_double(int64_t i) const { return element<double>(*this, i); }
int64_t Tensor::as_int(int64_t i) const { return element<int64_t>(*this, i); }
std::vector<double> Tensor::to_doubles() const { return elements<double>(*this); }
std::vector<int64_t> Tensor::to_ints() const { return elements<int64_t>(*this); }

Tensor Tensor::cast(DType dtype) const {
  CHECK(defined());
  if (dtype == dtype_) return *this;
  with_element(dtype_, [](auto) {});  // an element without number is refused before memory is taken
  with_element(dtype, [](auto) {});
  Tensor out(dtype, shape_);
  cast_elements(dtype_, data_, dtype, out.data_, numel_);
  return out;
}

void cast_elements(DType from_type, const std::byte* x, DType to_type, std::byte* y, int64_t n) {
  with_element(from_type, [&](auto from) {
    with_element(to_type, [&](auto to) {
      for (int64_t i = 0; i < n; ++i, x += sizeof from, y += sizeof to) {
        const auto value = convert<decltype(to)>(load_number<decltype(from)>(x));
        std::memcpy(y, &value, sizeof value);
      }
    });
  });
}

float half_to_float(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000U) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fU;
  const uint32_t fraction = bits & 0x3ffU;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000U | (fraction << 13));
  if (exponent != 0) {
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  }
  const float subnormal = static_cast<float>(fraction) * 0x1p-24F;
  return sign != 0 ? -subnormal : subnormal;
}

uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000U;
  uint32_t size = bits & 0x7fffffffU;
  if (size > 0x7f800000U) return sign | 0x7e00U | ((size >> 13) & 0x3ffU);  // a quiet NaN
  if (size >= 0x477ff000U) return sign | 0x7c00U;  // 65520 and up round to infinity
  if (size < 0x38800000U) {
    // Subnormal: one half ulp is 2^-24, which is the ulp of floats in [0.5, 1); the addition
    // rounds.
    const float shifted = std::bit_cast<float>(size) + 0.5F;
    return sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000U);
  }
  size += 0xfffU + ((size >> 13) & 1U);  // to nearest, ties to even
  return sign | ((size - (112U << 23)) >> 13);
}

float bfloat16_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

uint16_t float_to_bfloat16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return (bits >> 16) | 0x40U;  // a quiet NaN
  bits += 0x7fffU + ((bits >> 16) & 1U);
  return bits >> 16;
}

}  // namespace sardonyx::graph
