// Copies between strided arrays: what Transpose, Slice, Pad, Concat, Expand and their gradients do.
//
// A box is a loop nest over dims; per step along axis i the source moves by src[i] elements and the
// destination by dst[i]. Strides may be negative or (source only) zero. No two steps may write the
// same element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "ops/core/kernel.h"

namespace sardonyx::ops {

struct StridedBox {
  std::vector<int64_t> dims, src, dst;
  int64_t src_at = 0, dst_at = 0;  // elements from the start of the arrays
};

class StridedCopy {
 public:
  StridedCopy(StridedBox box, DType dtype);
  void run(ThreadPool& pool, const void* src, void* dst) const;

 private:
  template <class T>
  void rows(ThreadPool& pool, const T* src, T* dst) const;
  template <class T>
  void tiles(ThreadPool& pool, const T* src, T* dst) const;

  StridedBox box_;  // without axes of size 1, neighbours merged
  DType dtype_;
  int64_t numel_ = 0;
  int tile_axis_ = -1;  // walks the source one by one while the last axis doesn't; -1: rows
};

// KernelDef::create of a kernel that is one such copy, of input 0 to output 0.
std::function<std::unique_ptr<Kernel>(const KernelRequest&)> strided_kernel(
    StridedBox (*box_of)(const KernelRequest&));

// Strides of a dense row-major array.
std::vector<int64_t> row_major(const std::vector<int64_t>& dims);
// The stored form as dense dims: the axes as they lie one inside the other, or [N/16, d1, ..., 16]
// in lanes of 16 images.
std::vector<int64_t> stored_dims(const TensorType& type);
// Which of them is axis `axis` of the type.
int stored_axis(const TensorType& type, int axis);

// Sets `bytes` bytes to zero.
void zero_fill(ThreadPool& pool, void* data, size_t bytes);

// Calls f(index) for every index of a dense array, last axis fastest: the loops of reference
// kernels.
template <class F>
void for_each_index(const std::vector<int64_t>& dims, F&& f) {
  for (int64_t size : dims) {
    if (size == 0) return;
  }
  std::vector<int64_t> index(dims.size(), 0);
  while (true) {
    f(static_cast<const std::vector<int64_t>&>(index));
    size_t axis = dims.size();
    while (axis > 0 && ++index[axis - 1] == dims[axis - 1]) index[--axis] = 0;
    if (axis == 0) return;
  }
}
int64_t offset_of(const std::vector<int64_t>& index, const std::vector<int64_t>& strides);

}  // namespace sardonyx::ops
