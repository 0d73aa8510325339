// Two routes: a table per channel (uint8 pixels to floats), and blocks through double or int64 (all
// the rest). The first is what training on images costs per step.
#include "runtime/data/element.h"

#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>
#include <utility>

#include "graph/support/error.h"

namespace sardonyx::runtime {
namespace {

using graph::DType;

constexpr int64_t kBlock = 256;

// Calls `body` with a value of the C++ type that stores `dtype`; 16-bit floats come as their bits.
template <class Body>
void with_storage(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::kFloat32:
      return body(float{});
    case DType::kFloat64:
      return body(double{});
    case DType::kBool:
    case DType::kUint8:
      return body(uint8_t{});
    case DType::kInt8:
      return body(int8_t{});
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kUint16:
      return body(uint16_t{});
    case DType::kInt16:
      return body(int16_t{});
    case DType::kInt32:
      return body(int32_t{});
    case DType::kUint32:
      return body(uint32_t{});
    case DType::kInt64:
      return body(int64_t{});
    case DType::kUint64:
      return body(uint64_t{});
    default:
      CHECK(false, "no conversion of {}", graph::dtype_name(dtype));
  }
}

bool is_number(DType dtype) {
  return dtype == DType::kBool || graph::is_integer(dtype) || graph::is_floating(dtype);
}

// `count` elements, `stride` apart, widened; and back.
template <class Wide>
void load(DType dtype, const std::byte* from, int64_t stride, int64_t count, Wide* out) {
  with_storage(dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* source = reinterpret_cast<const T*>(from);
    for (int64_t i = 0; i < count; ++i) {
      T value = source[i * stride];
      if (dtype == DType::kFloat16) {
        out[i] = static_cast<Wide>(graph::half_to_float(static_cast<uint16_t>(value)));
      } else if (dtype == DType::kBFloat16) {
        out[i] = static_cast<Wide>(graph::bfloat16_to_float(static_cast<uint16_t>(value)));
      } else {
        out[i] = static_cast<Wide>(value);
      }
    }
  });
}

template <class Wide>
void store(DType dtype, const Wide* values, int64_t count, int64_t stride, std::byte* to) {
  with_storage(dtype, [&](auto zero) {
    using T = decltype(zero);
    T* target = reinterpret_cast<T*>(to);
    for (int64_t i = 0; i < count; ++i) {
      T& out = target[i * stride];
      if (dtype == DType::kFloat16) {
        out = static_cast<T>(graph::float_to_half(static_cast<float>(values[i])));
      } else if (dtype == DType::kBFloat16) {
        out = static_cast<T>(graph::float_to_bfloat16(static_cast<float>(values[i])));
      } else if (dtype == DType::kBool) {
        out = static_cast<T>(values[i] != 0);
      } else {
        out = static_cast<T>(values[i]);
      }
    }
  });
}

}  // namespace

void reverse_elements(std::span<std::byte> data, size_t element_bytes) {
  CHECK(data.size() % element_bytes == 0);
  if (element_bytes == 1) return;
  for (size_t i = 0; i < data.size(); i += element_bytes) {
    std::reverse(data.begin() + i, data.begin() + i + element_bytes);
  }
}

IntegerRange integer_range(DType dtype) {
  if (dtype == DType::kBool) return {0, 1};
  const auto of = [](auto zero) -> IntegerRange {
    using T = decltype(zero);
    return {std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
  };
  IntegerRange range = of(int64_t{});
  if (!graph::is_integer(dtype)) return range;
  with_storage(dtype, [&](auto zero) {
    if constexpr (std::is_integral_v<decltype(zero)>) range = of(zero);
  });
  return range;
}

bool is_within(const graph::Tensor& values, int64_t i, const IntegerRange& range) {
  const int64_t value = values.as_int(i);
  if (value < 0 && values.dtype() != DType::kUint64) return value >= range.low;
  const auto size = static_cast<uint64_t>(value);
  return size <= range.high && (range.low <= 0 || size >= static_cast<uint64_t>(range.low));
}

std::string integer_text(const graph::Tensor& values, int64_t i) {
  const int64_t value = values.as_int(i);
  if (values.dtype() != DType::kUint64) return std::to_string(value);
  return std::to_string(static_cast<uint64_t>(value));
}

bool can_convert(DType from, DType to) {
  return is_number(from) && is_number(to) && (graph::is_floating(to) || !graph::is_floating(from));
}

RowConverter::RowConverter(RowConversion conversion) : c_(std::move(conversion)) {
  CHECK(can_convert(c_.from, c_.to));
  CHECK(c_.mean.size() == c_.std.size());
  CHECK(c_.mean.empty() ||
        (graph::is_floating(c_.to) && static_cast<int64_t>(c_.mean.size()) == c_.channels));
  if (uses_table()) build_table();
}

bool RowConverter::identity() const {
  return c_.from == c_.to && c_.mean.empty() && (c_.channels == 1 || c_.source == c_.target);
}

bool RowConverter::uses_table() const {
  return c_.from == DType::kUint8 && graph::is_floating(c_.to);
}

void RowConverter::build_table() {
  size_t element = graph::dtype_size(c_.to);
  table_.resize(static_cast<size_t>(c_.channels) * kBlock * element);
  for (int64_t channel = 0; channel < c_.channels; ++channel) {
    std::array<float, kBlock> values;
    for (int64_t v = 0; v < kBlock; ++v) {
      values[v] = static_cast<float>(v);
      if (c_.scale == PixelScale::kUnit) values[v] /= 255.0f;
      if (!c_.mean.empty()) values[v] = (values[v] - c_.mean[channel]) / c_.std[channel];
    }
    store(c_.to, values.data(), kBlock, 1, table_.data() + channel * kBlock * element);
  }
}

template <class T>
void RowConverter::look_up(const std::byte* from, std::byte* to) const {
  const auto* pixels = reinterpret_cast<const uint8_t*>(from);
  T* out = reinterpret_cast<T*>(to);
  for (int64_t channel = 0; channel < c_.channels; ++channel) {
    const T* table = reinterpret_cast<const T*>(table_.data()) + channel * kBlock;
    const uint8_t* source = pixels + channel * c_.source.channel;
    T* target = out + channel * c_.target.channel;
    if (c_.source.pixel == 1 && c_.target.pixel == 1) {
      for (int64_t p = 0; p < c_.plane; ++p) target[p] = table[source[p]];
    } else {
      for (int64_t p = 0; p < c_.plane; ++p) {
        target[p * c_.target.pixel] = table[source[p * c_.source.pixel]];
      }
    }
  }
}

template <class Wide>
void RowConverter::convert_blocks(const std::byte* from, std::byte* to) const {
  int64_t from_bytes = static_cast<int64_t>(graph::dtype_size(c_.from));
  int64_t to_bytes = static_cast<int64_t>(graph::dtype_size(c_.to));
  std::array<Wide, kBlock> values;
  for (int64_t channel = 0; channel < c_.channels; ++channel) {
    for (int64_t p = 0; p < c_.plane; p += kBlock) {
      int64_t count = std::min(kBlock, c_.plane - p);
      int64_t source = channel * c_.source.channel + p * c_.source.pixel;
      int64_t target = channel * c_.target.channel + p * c_.target.pixel;
      load(c_.from, from + source * from_bytes, c_.source.pixel, count, values.data());
      if (!c_.mean.empty()) {
        Wide mean = static_cast<Wide>(c_.mean[channel]);
        Wide std = static_cast<Wide>(c_.std[channel]);
        for (int64_t i = 0; i < count; ++i) values[i] = (values[i] - mean) / std;
      }
      store(c_.to, values.data(), count, c_.target.pixel, to + target * to_bytes);
    }
  }
}

void RowConverter::convert(std::span<const std::byte> from, std::span<std::byte> to) const {
  size_t elements = static_cast<size_t>(c_.channels * c_.plane);
  CHECK(from.size() == elements * graph::dtype_size(c_.from));
  CHECK(to.size() == elements * graph::dtype_size(c_.to));
  if (!uses_table()) {
    if (graph::is_floating(c_.to)) {
      convert_blocks<double>(from.data(), to.data());
    } else {
      convert_blocks<int64_t>(from.data(), to.data());
    }
    return;
  }
  switch (graph::dtype_size(c_.to)) {
    case 2:
      return look_up<uint16_t>(from.data(), to.data());
    case 4:
      return look_up<uint32_t>(from.data(), to.data());
    default:
      return look_up<uint64_t>(from.data(), to.data());
  }
}

}  // namespace sardonyx::runtime
