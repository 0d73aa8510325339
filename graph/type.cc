#include "graph/type.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "graph/support/error.h"
#include "graph/text.h"

namespace sardonyx::graph {
namespace {

struct DTypeRow {
  std::string_view name;
  size_t size;
};

constexpr std::array<DTypeRow, 17> kDTypes{{{"undefined", 0},
                                            {"float", 4},
                                            {"uint8", 1},
                                            {"int8", 1},
                                            {"uint16", 2},
                                            {"int16", 2},
                                            {"int32", 4},
                                            {"int64", 8},
                                            {"string", 0},
                                            {"bool", 1},
                                            {"float16", 2},
                                            {"double", 8},
                                            {"uint32", 4},
                                            {"uint64", 8},
                                            {"complex64", 8},
                                            {"complex128", 16},
                                            {"bfloat16", 2}}};

// Elements stored along `axis`: rounded up to whole blocks.
int64_t stored_size(int64_t size, int32_t axis, const Layout& layout) {
  int64_t block = 1;
  for (const Layout::Block& inner : layout.inner) {
    if (inner.axis == axis) block *= inner.size;
  }
  return (size + block - 1) / block * block;
}

// A decimal number at the front of `text`; removes it.
std::optional<int32_t> take_number(std::string_view& text) {
  int32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  text.remove_prefix(end - text.data());
  return number;
}

bool take(std::string_view& text, char c) {
  if (text.empty() || text[0] != c) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::string_view dtype_name(DType dtype) {
  const auto i = static_cast<size_t>(dtype);
  CHECK(i < kDTypes.size(), "dtype {}", i);
  return kDTypes[i].name;
}

DType dtype_from_name(std::string_view name) {
  for (size_t i = 0; i < kDTypes.size(); ++i) {
    if (kDTypes[i].name == name) return static_cast<DType>(i);
  }
  return DType::kUndefined;
}

size_t dtype_size(DType dtype) {
  const auto i = static_cast<size_t>(dtype);
  CHECK(i < kDTypes.size(), "dtype {}", i);
  return kDTypes[i].size;
}

bool is_floating(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat64 || dtype == DType::kFloat16 ||
         dtype == DType::kBFloat16;
}

bool is_integer(DType dtype) {
  switch (dtype) {
    case DType::kUint8:
    case DType::kInt8:
    case DType::kUint16:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
    case DType::kUint32:
    case DType::kUint64:
      return true;
    default:
      return false;
  }
}

Layout Layout::lanes(int32_t lanes) {
  CHECK(lanes > 0);
  Layout layout;
  layout.inner.push_back({0, lanes});
  return layout;
}

int32_t Layout::lane_count() const {
  return order.empty() && inner.size() == 1 && inner[0].axis == 0 ? inner[0].size : 0;
}

Layout Layout::channels_last(int rank) {
  CHECK(rank >= 3);
  Layout layout;
  layout.order.push_back(0);
  for (int32_t axis = 2; axis < rank; ++axis) layout.order.push_back(axis);
  layout.order.push_back(1);
  return layout;
}

bool Layout::channels_last() const {
  const auto rank = static_cast<int>(order.size());
  return rank >= 3 && *this == channels_last(rank);
}

std::string Layout::str() const {
  if (plain()) return "";
  std::string out = "@";
  for (const int32_t axis : order) {
    out += axis < 10 ? fmt::format("{}", axis) : fmt::format("({})", axis);
  }
  for (const Block& block : inner) {
    if (block.axis < 2) {
      out += fmt::format("{}{}", block.axis == 0 ? 'n' : 'c', block.size);
    } else {
      out += fmt::format("a{}x{}", block.axis, block.size);
    }
  }
  if (padding == Padding::kZero) out += "z";
  return out;
}

std::optional<Layout> Layout::from_str(std::string_view text) {
  Layout layout;
  while (!text.empty()) {
    if (text[0] >= '0' && text[0] <= '9') {
      layout.order.push_back(text[0] - '0');
      text.remove_prefix(1);
    } else if (take(text, '(')) {
      const auto axis = take_number(text);
      if (!axis || !take(text, ')')) return std::nullopt;
      layout.order.push_back(*axis);
    } else {
      break;
    }
  }
  while (!text.empty() && text != "z") {
    std::optional<int32_t> axis;
    if (take(text, 'n')) {
      axis = 0;
    } else if (take(text, 'c')) {
      axis = 1;
    } else if (take(text, 'a')) {
      axis = take_number(text);
      if (!take(text, 'x')) return std::nullopt;
    }
    if (!axis) return std::nullopt;
    const auto size = take_number(text);
    if (!size || *size < 1) return std::nullopt;
    layout.inner.push_back({*axis, *size});
  }
  if (take(text, 'z')) layout.padding = Padding::kZero;
  if (layout.plain()) return std::nullopt;
  return layout;
}

TensorType TensorType::unranked(DType d) {
  TensorType type;
  type.dtype = d;
  return type;
}

bool TensorType::is_static() const {
  return ranked &&
         std::all_of(dims.begin(), dims.end(), [](const Dim& dim) { return dim.known(); });
}

std::vector<int64_t> TensorType::shape() const {
  CHECK(is_static(), "the shape of {} is not known", str());
  std::vector<int64_t> out;
  out.reserve(dims.size());
  for (const Dim& dim : dims) out.push_back(dim.value);
  return out;
}

int64_t TensorType::numel() const { return checked_numel(shape()); }

int64_t TensorType::physical_numel() const {
  std::vector<int64_t> stored = shape();
  for (size_t i = 0; i < stored.size(); ++i) {
    stored[i] = stored_size(stored[i], static_cast<int32_t>(i), layout);
  }
  return checked_numel(stored);
}

bool TensorType::one_channel_or_cell() const {
  const std::vector<int64_t> sizes = shape();
  const auto cells = std::count_if(sizes.begin() + 2, sizes.end(), [](int64_t n) { return n > 1; });
  return sizes.at(1) == 1 || cells == 0;
}

size_t TensorType::bytes() const {
  const int64_t elements = physical_numel();
  const size_t size = dtype_size(dtype);
  if (size != 0 && elements > kMaxElements / static_cast<int64_t>(size)) {
    throw Error("tensor type {} needs more bytes than can be addressed", str());
  }
  return static_cast<size_t>(elements) * size;
}

std::string TensorType::str() const {
  std::string out(dtype_name(dtype));
  if (ranked) out += shape_str(dims);
  return out + layout.str();
}

bool TensorType::same_storage(const TensorType& other) const {
  if (dtype != other.dtype || !ranked || !other.ranked || layout != other.layout) return false;
  return std::equal(dims.begin(), dims.end(), other.dims.begin(), other.dims.end(),
                    [](const Dim& a, const Dim& b) {
                      return a.value == b.value && (a.known() || (!a.symbol.empty() && a == b));
                    });
}

std::vector<Dim> to_dims(const std::vector<int64_t>& shape) {
  return std::vector<Dim>(shape.begin(), shape.end());
}

std::string shape_str(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ","));
}

std::string shape_str(const std::vector<Dim>& dims) {
  std::string out = "[";
  for (const Dim& dim : dims) {
    if (out.size() > 1) out += ",";
    if (!dim.symbol.empty()) {
      out += quote_name(dim.symbol);
      if (dim.known()) out += fmt::format(":{}", dim.value);
    } else {
      out += dim.known() ? fmt::format("{}", dim.value) : "?";
    }
  }
  return out + "]";
}

int64_t checked_numel(const std::vector<int64_t>& shape) {
  bool empty = false;
  int64_t product = 1;
  for (const int64_t size : shape) {
    if (size < 0) throw Error("shape {} has a negative entry", shape_str(shape));
    empty = empty || size == 0;
    const int64_t factor = std::max<int64_t>(size, 1);
    if (product > kMaxElements / factor) {
      throw Error("shape {} has more than 2^62 elements", shape_str(shape));
    }
    product *= factor;
  }
  return empty ? 0 : product;
}

}  // namespace sardonyx::graph
