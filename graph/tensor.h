// A constant array on the host: dense, row-major, little-endian.
//
// Copying a Tensor shares its bytes. The bytes are either owned or borrowed from a mapped file that
// stays alive through the same pointer; `mutable_data` copies first when they are borrowed or
// shared.
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

class Tensor {
 public:
  Tensor() = default;
  // Zero-filled.
  Tensor(DType dtype, std::vector<int64_t> shape);
  // Borrows `bytes`; `keep_alive` owns them.
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
  std::span<const std::byte> bytes() const { return {data_.get(), size_}; }
  std::span<std::byte> mutable_bytes();
  const std::vector<std::string>& strings() const { return strings_; }

  // CHECK: T is the element type.
  template <class T>
  std::span<const T> data() const;
  template <class T>
  std::span<T> mutable_data();

  // Element `i` (row-major) whatever the numeric type, and all of them.
  double as_double(int64_t i) const;
  int64_t as_int(int64_t i) const;
  std::vector<double> to_doubles() const;
  std::vector<int64_t> to_ints() const;
  // The same values in another numeric type (float16 and bfloat16 round to nearest even).
  Tensor cast(DType dtype) const;
  // The same bytes under another shape of equal size.
  Tensor reshaped(std::vector<int64_t> shape) const;
  // Same type, shape and bytes.
  bool identical(const Tensor& other) const;

 private:
  DType dtype_ = DType::kUndefined;
  std::vector<int64_t> shape_;
  int64_t numel_ = 0;
  size_t size_ = 0;
  bool borrowed_ = false;
  std::vector<std::string> strings_;
  // Shared: constants are shared between a graph, its clones (plan variants) and the mapped file.
  std::shared_ptr<std::byte[]> data_;
};

// float16 / bfloat16 bits <-> float, round to nearest even.
float half_to_float(uint16_t bits);
uint16_t float_to_half(float value);
float bfloat16_to_float(uint16_t bits);
uint16_t float_to_bfloat16(float value);

}  // namespace sardonyx::graph
