// LRN on a CUDA device: a thread per element, which adds up the squares of its channels in double.
// The gradient adds them up for each channel that it meets: windows have five channels or so.
#include <cmath>

#include "ops/core/cuda.cuh"
#include "ops/lrn/lrn_cuda.h"

namespace sardonyx::ops::lrn {

namespace {

// bias + weight times the squares around channel c; `line` is channel 0.
template <class T>
__device__ inline double divisor(const Norm& norm, const T* line, int64_t c) {
  const int64_t first = c < norm.before ? 0 : c - norm.before;
  const int64_t end = c + norm.behind + 1 < norm.channels ? c + norm.behind + 1 : norm.channels;
  double sum = 0;
  for (int64_t k = first; k < end; ++k) {
    const double v = static_cast<double>(line[k * norm.inner]);
    sum += v * v;
  }
  return norm.bias + norm.weight * sum;
}

struct Place {
  int64_t line, channel;
};

__device__ inline Place place_of(const Norm& norm, int64_t i) {
  const int64_t row = i / norm.inner, outer = row / norm.channels;
  return {outer * norm.channels * norm.inner + (i - row * norm.inner), row - outer * norm.channels};
}

template <class T>
__global__ void forward(Norm norm, int64_t count, const T* x, T* y) {
  cuda::for_elements(count, [&](int64_t i) {
    const Place at = place_of(norm, i);
    y[i] = static_cast<T>(static_cast<double>(x[i]) *
                          std::pow(divisor(norm, x + at.line, at.channel), -norm.beta));
  });
}

template <class T>
__global__ void backward(Norm norm, int64_t count, const T* x, const T* dy, T* dx) {
  cuda::for_elements(count, [&](int64_t i) {
    const Place at = place_of(norm, i);
    const T *line = x + at.line, *line_dy = dy + at.line;
    // The channels that see this one.
    const int64_t c = at.channel, first = c < norm.behind ? 0 : c - norm.behind;
    const int64_t end = c + norm.before + 1 < norm.channels ? c + norm.before + 1 : norm.channels;
    double through = 0, own = 0;
    for (int64_t k = first; k < end; ++k) {
      const double d = divisor(norm, line, k);
      const double g = static_cast<double>(line_dy[k * norm.inner]) * std::pow(d, -norm.beta);
      through += g * static_cast<double>(line[k * norm.inner]) / d;
      if (k == c) own = g;
    }
    dx[i] = static_cast<T>(own - 2 * norm.weight * norm.beta * static_cast<double>(x[i]) * through);
  });
}

}  // namespace

void launch(cuda::Stream stream, graph::DType dtype, const Norm& norm, const void* x, void* y) {
  const int64_t count = norm.outer * norm.channels * norm.inner;
  if (count == 0) return;
  cuda::dispatch_float(dtype, [&]<class T>() {
    LAUNCH((forward<T>), cuda::grid_over(count), stream, norm, count, static_cast<const T*>(x),
           static_cast<T*>(y));
  });
}

void launch_gradient(cuda::Stream stream, graph::DType dtype, const Norm& norm, const void* x,
                     const void* dy, void* dx) {
  const int64_t count = norm.outer * norm.channels * norm.inner;
  if (count == 0) return;
  cuda::dispatch_float(dtype, [&]<class T>() {
    LAUNCH((backward<T>), cuda::grid_over(count), stream, norm, count, static_cast<const T*>(x),
           static_cast<const T*>(dy), static_cast<T*>(dx));
  });
}

}  // namespace sardonyx::ops::lrn
