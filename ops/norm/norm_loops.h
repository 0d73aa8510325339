// The loops of the room (float and double), each over one group of elements. Private to ops/norm.
//
// A group is some spans, one behind the other, with one number of scale and bias each. Width 1: x
// is plain. Width 16: an element is the 16 images of a lane block, and each image has statistics of
// its own; lanes that hold no image may hold anything and are left out where images are added up.
#pragma once

#include <cstdint>

namespace sardonyx::ops::norm {

enum class Centring : uint8_t { kMean, kNone };

// Of a group: its mean (0 without centring) and 1 / sqrt(mean of squares + epsilon).
struct Statistics {
  double mean = 0, inverse = 0;
};

// Sums over a group: of g = scale * dy, and of g * (x - mean).
struct Sums {
  double plain = 0, weighted = 0;
};

// dx = inverse * scale * dy - shift - slope * (x - mean)
struct Slopes {
  double shift = 0, slope = 0;
};

// `params` spans that lie one behind the other.
struct Spans {
  int64_t params, span;
};

inline constexpr int kMostWidth = 16;

template <class T>
struct Loops {
  void (*statistics)(Spans s, Centring centring, double epsilon, const T* x, Statistics* result);
  void (*forward)(Spans s, const Statistics* of, const T* x, const T* scale, const T* bias, T* y);
  void (*sums)(Spans s, const Statistics* of, const T* x, const T* scale, const T* dy,
               Sums* result);
  void (*backward)(Spans s, const Statistics* of, const Slopes* slopes, const T* x, const T* scale,
                   const T* dy, T* dx);
  // dscale[p] += sum over the span of dy * (x - mean) * inverse
  void (*scale_sums)(Spans s, const Statistics* of, int valid, const T* x, const T* dy,
                     double* dscale);
};

template <class T>
const Loops<T>& reference_loops();

// The copies of norm_isa.cc.
namespace baseline {
template <class T>
const Loops<T>& plain_loops();
template <class T>
const Loops<T>& lane_loops();
}  // namespace baseline
namespace avx2 {
template <class T>
const Loops<T>& plain_loops();
template <class T>
const Loops<T>& lane_loops();
}  // namespace avx2
namespace avx512 {
template <class T>
const Loops<T>& plain_loops();
template <class T>
const Loops<T>& lane_loops();
}  // namespace avx512

}  // namespace sardonyx::ops::norm
