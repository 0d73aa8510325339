// The vector loops of the room (float and double). Private to ops/batch_norm. A row is one image,
// or a block of 16 in lanes; it has one plane of elements per channel.
#pragma once

#include <cstdint>

namespace sardonyx::ops::batch_norm {

// (x - mean) * a + b, one entry per channel each.
template <class T>
struct Affine {
  const T *mean = nullptr, *a = nullptr, *b = nullptr;
  Affine from(int64_t channel) const {
    return a == nullptr ? *this : Affine{mean + channel, a + channel, b + channel};
  }
};

// dx = a * dy - ((x - mean) * k + c), one entry per channel each.
template <class T>
struct Backward {
  const T *a, *mean, *k, *c;
};

enum class Activation : uint8_t { kNone, kRelu };

// A gradient as it is read: dy + second, and 0 where y isn't above 0. y is given, or what the
// affine makes of x; without either nothing is masked. Null: left out.
template <class T>
struct Incoming {
  const T *dy = nullptr, *second = nullptr, *y = nullptr;
  Affine<T> affine;
  // From the element `at` on, of that channel.
  Incoming from(int64_t at, int64_t channel) const {
    return {dy + at, second == nullptr ? nullptr : second + at, y == nullptr ? nullptr : y + at,
            affine.from(channel)};
  }
};

// What is walked: `channels` counts those that the pointers begin with; rows lie `stride` elements
// apart.
struct Extent {
  int64_t rows, stride, channels, plane;
};

template <class T>
struct Loops {
  // Adds the sum of each channel to sums[], that of its squares to squares[]. In double.
  void (*sums)(const T* x, const Extent& extent, double* sums, double* squares);
  // The sum of the gradient to sums[], that of it times (x - mean) to products[]. In double. The
  // gradient itself goes to dz, which may be null.
  void (*grad_sums)(const Incoming<T>& dy, const T* x, const double* mean, const Extent& extent,
                    double* sums, double* products, T* dz);
  // One row. `addend` may be null.
  void (*apply)(const T* x, const T* addend, const Affine<T>& affine, Activation activation,
                int64_t channels, int64_t plane, T* y);
  // x may be null: dx = a * dy. Adds the sum of dx of each channel to sums[], which may be null.
  void (*grad_data)(const Incoming<T>& dy, const T* x, const Backward<T>& backward,
                    const Extent& extent, T* dx, double* sums);
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
