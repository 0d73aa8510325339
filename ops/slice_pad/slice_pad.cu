// Pad: each element of y looks for its element of x. PadGrad: each element of dx adds up the
// elements of dy that came from it, in one order, in double.
#include "ops/core/bfloat16.cuh"
#include "ops/core/cuda_bytes.cuh"
#include "ops/core/walk.cuh"
#include "ops/slice_pad/slice_pad_cuda.h"

namespace sardonyx::ops {

namespace {

__device__ inline int64_t modulo(int64_t a, int64_t n) { return (a % n + n) % n; }

// Element of x under element i of y; -1: the constant.
__device__ inline int64_t source(const PadNest::Axis& axis, PadMode mode, int64_t i) {
  const int64_t position = i - axis.front, last = axis.kept - 1;
  if (position >= 0 && position <= last) return axis.first + position;
  if (mode == PadMode::kConstant) return -1;
  if (mode == PadMode::kEdge || last == 0) return axis.first + (position < 0 ? 0 : last);
  if (mode == PadMode::kWrap) return axis.first + modulo(position, axis.kept);
  const int64_t there_and_back = modulo(position, 2 * last);
  return axis.first + (there_and_back <= last ? there_and_back : 2 * last - there_and_back);
}

template <class T>
__global__ void pad(PadNest nest, const T* value_at, T value, const T* x, T* y) {
  cuda::for_elements(nest.y_count, [&](int64_t i) {
    int64_t rest = i, place = 0, step = 1;
    for (int axis = 0; axis < nest.axes && place >= 0; ++axis) {
      const PadNest::Axis& a = nest.axis[axis];
      const int64_t at = source(a, nest.mode, cuda::take(rest, a.y_size, nest.narrow));
      place = at < 0 ? -1 : place + at * step;
      step *= a.x_size;
    }
    y[i] = place >= 0 ? x[place] : value_at != nullptr ? *value_at : value;
  });
}

// Elements of y along an axis that came from one of x: first, first + step, ... (count of them),
// and those of a second run.
struct Copies {
  int64_t first, step, count, second, second_count;
};

// The numbers in [low, high] that are `at` modulo n.
__device__ inline void fill_run(int64_t low, int64_t high, int64_t at, int64_t n, int64_t& first,
                                int64_t& count) {
  first = low + modulo(at - low, n);
  count = first > high ? 0 : (high - first) / n + 1;
}

__device__ inline Copies copies_of(const PadNest::Axis& axis, PadMode mode, int64_t in_x) {
  const int64_t at = in_x - axis.first, last = axis.kept - 1;
  const int64_t low = -axis.front, high = axis.y_size - axis.front - 1;
  Copies copies = {at, 1, at >= 0 && at <= last ? 1 : 0, 0, 0};
  if (copies.count > 0 && mode != PadMode::kConstant) {
    if (mode == PadMode::kEdge || last == 0) {
      copies.first = at == 0 ? low : at;
      copies.count = (at == last ? high : at) - copies.first + 1;
    } else {
      copies.step = mode == PadMode::kWrap ? axis.kept : 2 * last;
      fill_run(low, high, at, copies.step, copies.first, copies.count);
      if (mode == PadMode::kReflect && at != 0 && at != last) {
        fill_run(low, high, -at, copies.step, copies.second, copies.second_count);
      }
    }
  }
  copies.first += axis.front;
  copies.second += axis.front;
  return copies;
}

template <class T>
__global__ void pad_grad(PadNest nest, const T* dy, T* dx) {
  cuda::for_elements(nest.x_count, [&](int64_t i) {
    Copies copies[cuda::kWalkAxes];
    int64_t rest = i, total = 1;
    for (int axis = 0; axis < nest.axes; ++axis) {
      const PadNest::Axis& a = nest.axis[axis];
      copies[axis] = copies_of(a, nest.mode, cuda::take(rest, a.x_size, nest.narrow));
      total *= copies[axis].count + copies[axis].second_count;
    }
    double sum = 0;
    for (int64_t copy = 0; copy < total; ++copy) {
      int64_t left = copy, place = 0, step = 1;
      for (int axis = 0; axis < nest.axes; ++axis) {
        const Copies& c = copies[axis];
        const int64_t k = cuda::take(left, c.count + c.second_count, nest.narrow);
        place += step * (k < c.count ? c.first + k * c.step : c.second + (k - c.count) * c.step);
        step *= nest.axis[axis].y_size;
      }
      sum += static_cast<double>(dy[place]);
    }
    dx[i] = static_cast<cuda::Computed<T>>(sum);
  });
}

}  // namespace

void launch_pad(cuda::Stream stream, int bytes, const PadNest& nest, const PadValue& value,
                const void* x, void* y) {
  if (nest.y_count == 0) return;
  const auto with = [&]<class T>() {
    LAUNCH((pad<T>), cuda::grid_over(nest.y_count), stream, nest, static_cast<const T*>(value.at),
           static_cast<T>(value.bits), static_cast<const T*>(x), static_cast<T*>(y));
  };
  cuda::dispatch_bytes(bytes, with);
}

void launch_pad_grad(cuda::Stream stream, graph::DType dtype, const PadNest& nest, const void* dy,
                     void* dx) {
  if (nest.x_count == 0) return;
  cuda::dispatch_stored(dtype, [&]<class T>() {
    LAUNCH((pad_grad<T>), cuda::grid_over(nest.x_count), stream, nest, static_cast<const T*>(dy),
           static_cast<T*>(dx));
  });
}

}  // namespace sardonyx::ops
