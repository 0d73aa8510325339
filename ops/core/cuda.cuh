// What every .cu file includes: CUDA's keywords, the launch, and the loops and reductions that
// kernels share.
//
// <cuda_device.cuh> is CUDA itself (ops/core/cuda_native/) or its stand-in on the host
// (tests/support/host_cuda/), as the include path says; so a kernel may use: threadIdx, blockIdx,
// blockDim, gridDim (x and y), __shared__ arrays of fixed size, __syncthreads, __shfl_xor_sync and
// __shfl_down_sync of a whole warp, and functions of <cmath>. No atomics: the order of a sum must
// not depend on timing. Pointers come with the arguments, also inside structs, never from device
// memory: the stand-in translates them at the launch. A .cu file holds kernels and the plain
// functions that launch them; what a kernel takes and declines is in NAME_cuda.cc.
#pragma once

#include <cuda_device.cuh>

#include "graph/type.h"
#include "ops/core/cuda.h"
#include "ops/core/cuda_grid.h"

namespace sardonyx::ops::cuda {

inline constexpr int kWarp = 32;

// LAUNCH((kernel<T, 4>), grid, stream, arguments...): enqueues a kernel; arguments are converted to
// its parameters. The name shows in errors.
#define LAUNCH(kernel, grid, stream, ...) \
  ::sardonyx::ops::cuda::launch(#kernel, kernel, grid, stream, __VA_ARGS__)

// Enough blocks for n elements, at most so many that each thread still does something.
inline Grid grid_over(int64_t n) {
  constexpr int64_t kMostBlocks = 132 * 16;
  const int64_t blocks = (n + kBlock - 1) / kBlock;
  return {static_cast<unsigned>(blocks < 1 ? 1 : blocks > kMostBlocks ? kMostBlocks : blocks)};
}

// f(i) for the elements of this thread.
template <class F>
__device__ inline void for_elements(int64_t n, const F& f) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    f(i);
  }
}

// Over the warp; every thread gets the result.
template <class T>
__device__ inline T warp_sum(T value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, distance);
  }
  return value;
}
template <class T>
__device__ inline T warp_max(T value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    const T other = __shfl_xor_sync(0xffffffffu, value, distance);
    // NaN stays.
    value = other > value || other != other ? other : value;
  }
  return value;
}

// Over a block of whole warps, at most 1024 threads; every thread gets the result, all must call.
// The order of the additions depends on the size of the block alone.
template <class T>
__device__ inline T block_sum(T value) {
  __shared__ T parts[kWarp];
  value = warp_sum(value);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  __syncthreads();  // `parts` may still be read by an earlier call
  if (lane == 0) parts[warp] = value;
  __syncthreads();
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  return warp_sum(lane < warps ? parts[lane] : T(0));
}

// Calls f.template operator()<T>() for float and double.
template <class F>
void dispatch_float(graph::DType dtype, const F& f) {
  if (dtype == graph::DType::kFloat64) return f.template operator()<double>();
  if (dtype != graph::DType::kFloat32) refuse_dtype(dtype);
  f.template operator()<float>();
}

}  // namespace sardonyx::ops::cuda
