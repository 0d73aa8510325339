// A constant array on the host: dense, row-major, little-endian.
//
// Copying a Tensor shares its bytes. The bytes are either owned (64-byte aligned) or borrowed from
// a mapped file, which they keep alive; `mutable_data` copies first when they are borrowed or
// shared. Borrowed bytes may stand at any address: the first `data<T>()` on misaligned ones makes
// one aligned copy that all sharers use from then on. That step is safe from several threads;
// writing through `mutable_data` is not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graph/type.h"

namespace sardonyx::graph {

// The DType of a C++ element type (float, double, intN_t, uintN_t, bool).
template <class T>
DType dtype_of();
template <>
DType dtype_of<float>();
template <>
DType dtype_of<double>();
template <>
DType dtype_of<int8_t>();
template <>
DType dtype_of<int16_t>();
template <>
DType dtype_of<int32_t>();
template <>
DType dtype_of<int64_t>();
template <>
DType dtype_of<uint8_t>();
template <>
DType dtype_of<uint16_t>();
template <>
DType dtype_of<uint32_t>();
template <>
DType dtype_of<uint64_t>();
template <>
DType dtype_of<bool>();

class Tensor {
 public:
  Tensor() = default;
  // Zero-filled.
  Tensor(DType dtype, std::vector<int64_t> shape);
  // Borrows `bytes`; `keep_alive` owns them (may be null for static data). CHECK: the size fits the
  // shape.
  static Tensor borrow(DType dtype, std::vector<int64_t> shape, std::span<const std::byte> bytes,
                       std::shared_ptr<const void> keep_alive);
  template <class T>
  static Tensor of(std::vector<int64_t> shape, const std::vector<T>& values);
  template <class T>
  static Tensor scalar(T value) {
    return of<T>({}, std::vector<T>{value});
  }
  // Strings have no bytes; they are kept aside.
  static Tensor of_strings(std::vector<int64_t> shape, std::vector<std::string> values);

  bool defined() const { return dtype_ != DType::kUndefined; }
  DType dtype() const { return dtype_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  int rank() const { return static_cast<int>(shape_.size()); }
  int64_t numel() const { return numel_; }
  TensorType type() const { return TensorType(dtype_, to_dims(shape_)); }
  // Not aligned when borrowed.
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  // The bytes, aligned for the element type; not null even when there are none.
  const std::byte* aligned_data() const;
  std::span<std::byte> mutable_bytes();
  const std::vector<std::string>& strings() const { return strings_; }

  // CHECK: T is the element type. uint16_t also reads the bits of float16 and bfloat16.
  template <class T>
  std::span<const T> data() const;
  template <class T>
  std::span<T> mutable_data();

  // Element `i` (row-major) whatever the numeric type, and all of them. as_int truncates and
  // saturates (NaN: 0).
  double as_double(int64_t i) const;
  int64_t as_int(int64_t i) const;
  std::vector<double> to_doubles() const;
  std::vector<int64_t> to_ints() const;
  // The same values in another numeric type: float16 and bfloat16 round to nearest even, floating
  // to integer truncates and saturates (NaN: 0), integer to a narrower integer wraps, bool is "not
  // zero". Throws Error for string and complex.
  Tensor cast(DType dtype) const;
  // The same bytes under another shape of equal size.
  Tensor reshaped(std::vector<int64_t> shape) const;
  // Same type, shape and bytes.
  bool identical(const Tensor& other) const;

 private:
  struct Buffer;

  const std::byte* aligned(size_t alignment) const;
  void check_element(DType wanted) const;

  DType dtype_ = DType::kUndefined;
  std::vector<int64_t> shape_;
  int64_t numel_ = 0;
  size_t size_ = 0;
  std::vector<std::string> strings_;
  std::byte* data_ = nullptr;  // in buffer_; never written while it is borrowed or shared
  // Shared: constants are shared between a graph, its clones (plan variants) and the mapped file.
  std::shared_ptr<Buffer> buffer_;
};

// y[i] = x[i] in another numeric type, as Tensor::cast does it; `x` and `y` must not overlap.
void cast_elements(DType from, const std::byte* x, DType to, std::byte* y, int64_t n);

// float16 / bfloat16 bits <-> float, round to nearest even.
float half_to_float(uint16_t bits);
uint16_t float_to_half(float value);
float bfloat16_to_float(uint16_t bits);
uint16_t float_to_bfloat16(float value);

}  // namespace sardonyx::graph
