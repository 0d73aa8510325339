// The vector loops of the room (float and double). Private to ops/batch_norm. A row is one image,
// or a block of 16 in lanes; it has one plane of elements per channel.
#pragma once

#include <cstdint>

namespace sardonyx::ops::batch_norm {

// y = (x - mean) * a + b, one entry per channel each.
template <class T>
struct Affine {
  const T *mean, *a, *b;
};

// dx = a * dy - ((x - mean) * k + c), one entry per channel each.
template <class T>
struct Backward {
  const T *a, *mean, *k, *c;
};

// `channels` counts those that the pointers begin with; rows lie `stride` elements apart.
template <class T>
struct Loops {
  // Adds the sum of each channel to sums[], that of its squares to squares[]. In double.
  void (*sums)(const T* x, int64_t rows, int64_t stride, int64_t channels, int64_t plane,
               double* sums, double* squares);
  // The sum of dy to sums[], that of dy * (x - mean) to products[]. In double.
  void (*grad_sums)(const T* dy, const T* x, const double* mean, int64_t rows, int64_t stride,
                    int64_t channels, int64_t plane, double* sums, double* products);
  // One row.
  void (*apply)(const T* x, const Affine<T>& affine, int64_t channels, int64_t plane, T* y);
  // x may be null: dx = a * dy.
  void (*grad_data)(const T* dy, const T* x, const Backward<T>& backward, int64_t channels,
                    int64_t plane, T* dx);
};

// The copies of batch_norm_isa.cc.
namespace baseline {
template <class T>
const Loops<T>& loops();
}
namespace avx2 {
template <class T>
const Loops<T>& loops();
}
namespace avx512 {
template <class T>
const Loops<T>& loops();
}

}  // namespace sardonyx::ops::batch_norm
