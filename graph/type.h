// Types of values: element type, dimensions, layout.
//
// A dimension keeps the name of its symbol after it was bound to a number ("N:60" in print), so
// that every later pass still knows which axis is the batch. A layout is part of the type: two
// values of equal shape but different layout are different types, and only a Reorder node turns one
// into the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sardonyx::graph {

// Numbered as onnx.TensorProto.DataType.
enum class DType : uint8_t {
  kUndefined = 0,
  kFloat32 = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kFloat64 = 11,
  kUint32 = 12,
  kUint64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kBFloat16 = 16,
};

// "float", "double", "int64", ... as in the ONNX text form; "undefined" for kUndefined.
std::string_view dtype_name(DType dtype);
// The inverse; kUndefined when the name is unknown.
DType dtype_from_name(std::string_view name);
// Bytes of one element; 0 for kUndefined and kString.
size_t dtype_size(DType dtype);
// float16, bfloat16, float, double.
bool is_floating(DType dtype);
bool is_integer(DType dtype);

struct Dim {
  int64_t value = -1;  // -1: not known yet
  std::string symbol;  // name given by the file or by bind_batch; "" if none

  Dim() = default;
  Dim(int64_t v) : value(v) {}  // NOLINT(google-explicit-constructor): {2, 3} reads as a shape
  Dim(int64_t v, std::string s) : value(v), symbol(std::move(s)) {}
  static Dim named(std::string s) { return Dim(-1, std::move(s)); }
  bool known() const { return value >= 0; }
  friend bool operator==(const Dim&, const Dim&) = default;
};

// How the elements of a value lie in memory. The physical order is: the axes in `order`, outermost
// first (blocked axes counted in whole blocks), then the inner blocks. Examples for rank 4:
//   plain NCHW                     order {}          inner {}
//   NHWC                           order {0,2,3,1}   inner {}
//   nChw16c                        order {}          inner {{1,16}}
//   16 images as the inner lane    order {}          inner {{0,16}}      [N/16][C][H][W][16]
struct Layout {
  struct Block {
    int32_t axis = 0;
    int32_t size = 0;
    friend bool operator==(const Block&, const Block&) = default;
  };
  // What stands in the padding lanes of a last, short block.
  enum class Padding : uint8_t { kAny, kZero };

  std::vector<int32_t> order;  // empty: the identity
  std::vector<Block> inner;    // outermost inner block first
  Padding padding = Padding::kAny;

  bool plain() const { return order.empty() && inner.empty(); }
  // The layout in which `lanes` consecutive samples of axis 0 are the innermost axis.
  static Layout lanes(int32_t lanes);
  // Lanes of axis 0 if this is such a layout, else 0.
  int32_t lane_count() const;
  // The layout in which axis 1 is the innermost one. CHECK: rank >= 3.
  static Layout channels_last(int rank);
  bool channels_last() const;
  // "" for plain, else "@" order (a digit per axis, "(10)" from ten on) inner blocks ("n16" axis 0,
  // "c16" axis 1, "a2x8" axis 2 and up) and "z" when padding is zero: "@0231", "@n16", "@c16z",
  // "@10n16".
  std::string str() const;
  // The inverse, without the "@". nullopt when the text isn't a layout.
  static std::optional<Layout> from_str(std::string_view text);
  friend bool operator==(const Layout&, const Layout&) = default;
};

struct TensorType {
  DType dtype = DType::kUndefined;
  bool ranked = false;    // false: the number of axes is not known
  std::vector<Dim> dims;  // meaningful when ranked
  Layout layout;

  TensorType() = default;
  TensorType(DType d, std::vector<Dim> shape) : dtype(d), ranked(true), dims(std::move(shape)) {}
  static TensorType unranked(DType d);

  int rank() const { return static_cast<int>(dims.size()); }
  // All dimensions known.
  bool is_static() const;
  // The dimensions as numbers. CHECK: is_static().
  std::vector<int64_t> shape() const;
  // Logical elements. CHECK: is_static(). Throws Error when the product overflows.
  int64_t numel() const;
  // Elements and bytes as stored: blocked axes are rounded up to whole blocks.
  int64_t physical_numel() const;
  size_t bytes() const;
  // Plain or with channels last are the same bytes: there is one channel, or one cell in each.
  // CHECK: is_static().
  bool one_channel_or_cell() const;
  // "float[N:60,1,28,28]@n16"; "float" when unranked.
  std::string str() const;
  // Same element type, same numbers of elements along each axis (symbols aside), same layout. Axes
  // of unknown size are the same when they carry the same symbol.
  bool same_storage(const TensorType& other) const;
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

std::vector<Dim> to_dims(const std::vector<int64_t>& shape);
// "[2,3]"
std::string shape_str(const std::vector<int64_t>& shape);
std::string shape_str(const std::vector<Dim>& dims);
inline constexpr int64_t kMaxElements = int64_t{1} << 62;
// Product with overflow check; throws Error naming the shape when an entry is negative or the
// product exceeds kMaxElements, with zeros left out: every part of a shape can be multiplied then.
int64_t checked_numel(const std::vector<int64_t>& shape);

}  // namespace sardonyx::graph
