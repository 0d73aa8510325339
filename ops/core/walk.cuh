// Where the operands of a step stand (Walk), and kernels that compute an element of y from the
// elements that meet it: launch_dense for operands of one shape, launch_map for those that
// broadcast.
//
// The function f is an object with a __device__ operator() that takes the elements, bfloat16 as
// float, and returns that of y. y may be an operand that isn't broadcast: its element is read
// before it is written, by the same thread.
#pragma once

#include <cstdint>
#include <utility>

#include "ops/core/cuda_packs.cuh"
#include "ops/core/walk.h"

namespace sardonyx::ops::cuda {

// n % size, and n / size into n. `narrow`: both have at most 31 bits, which divides faster.
__device__ inline int64_t take(int64_t& n, int64_t size, bool narrow) {
  const int64_t next =
      narrow ? static_cast<uint32_t>(n) / static_cast<uint32_t>(size)
             : static_cast<int64_t>(static_cast<uint64_t>(n) / static_cast<uint64_t>(size));
  const int64_t rest = n - next * size;
  n = next;
  return rest;
}

template <class Step, class Place, int kOperands>
__device__ inline void locate_as(const Walk<kOperands>& walk, int64_t step,
                                 int64_t (&places)[kOperands]) {
  Step rest = static_cast<Step>(step);
  Place sums[kOperands] = {};
  for (int axis = 0; axis < walk.axes; ++axis) {
    Step at = rest;
    if (axis < walk.axes - 1) {
      const Step size = static_cast<Step>(walk.sizes[axis]), next = rest / size;
      at = rest - next * size;
      rest = next;
    }
    for (int k = 0; k < kOperands; ++k) {
      sums[k] += static_cast<Place>(at) * static_cast<Place>(walk.strides[k][axis]);
    }
  }
  for (int k = 0; k < kOperands; ++k) places[k] = sums[k];
}

// The element of every operand at a step.
template <int kOperands>
__device__ inline void locate(const Walk<kOperands>& walk, int64_t step,
                              int64_t (&places)[kOperands]) {
  if (walk.narrow) {
    locate_as<uint32_t, int32_t>(walk, step, places);
  } else {
    locate_as<uint64_t, int64_t>(walk, step, places);
  }
}

template <class T, int kWidth>
bool in_packs(const T* data) {
  return reinterpret_cast<uintptr_t>(data) % sizeof(Pack<T, kWidth>) == 0;
}

// By value: a pack is loaded at once, not element by element.
template <int kWidth, class F, class Y, class... X>
__device__ inline Pack<Y, kWidth> map_pack(const F& f, Pack<X, kWidth>... x) {
  Pack<Y, kWidth> y;
  for (int i = 0; i < kWidth; ++i) y.at[i] = f(x.at[i]...);
  return y;
}

// The first `packs` packs at once, what is behind them one by one.
template <int kWidth, class F, class Y, class... X>
__global__ void dense_kernel(int64_t n, int64_t packs, F f, Y* y, const X*... x) {
  for_elements(packs, [&](int64_t i) {
    reinterpret_cast<Pack<Y, kWidth>*>(y)[i] =
        map_pack<kWidth, F, Y, X...>(f, reinterpret_cast<const Pack<X, kWidth>*>(x)[i]...);
  });
  const int64_t first = packs * kWidth;
  for_elements(n - first, [&](int64_t i) { y[first + i] = f(x[first + i]...); });
}

// Bytes of the largest element.
template <class... T>
constexpr int most_bytes() {
  int most = 1;
  ((most = static_cast<int>(sizeof(T)) > most ? static_cast<int>(sizeof(T)) : most), ...);
  return most;
}

// y[i] = f(x[i]...) for i < n.
template <class F, class Y, class... X>
void launch_dense(Stream stream, int64_t n, const F& f, Y* y, const X*... x) {
  if (n == 0) return;
  constexpr int kWidth = 16 / most_bytes<Y, X...>();
  // Views may begin anywhere.
  const bool aligned = in_packs<Y, kWidth>(y) && (in_packs<X, kWidth>(x) && ...);
  const int64_t packs = aligned ? n / kWidth : 0;
  LAUNCH((dense_kernel<kWidth, F, Y, X...>), grid_over(aligned ? packs + kWidth : n), stream, n,
         packs, f, y, x...);
}

template <class F, class Y, class... X, size_t... k>
__device__ inline Y map_places(const F& f, const int64_t* places, std::index_sequence<k...>,
                               const X*... x) {
  return f(x[places[k]]...);
}

template <class F, class Y, class... X>
__global__ void walk_kernel(Walk<sizeof...(X)> walk, F f, Y* y, const X*... x) {
  for_elements(walk.count, [&](int64_t i) {
    int64_t places[sizeof...(X)];
    locate(walk, i, places);
    y[i] = map_places<F, Y, X...>(f, places, std::make_index_sequence<sizeof...(X)>(), x...);
  });
}

// y[i] = f(x[place at step i]...) for the steps of the walk.
template <class F, class Y, class... X>
void launch_map(Stream stream, const Walk<sizeof...(X)>& walk, const F& f, Y* y, const X*... x) {
  if (walk.dense) return launch_dense(stream, walk.count, f, y, x...);
  if (walk.count == 0) return;
  LAUNCH((walk_kernel<F, Y, X...>), grid_over(walk.count), stream, walk, f, y, x...);
}

}  // namespace sardonyx::ops::cuda
