#include "tests/cuda/test_kernels.h"

#include <cstring>

#include "ops/core/cuda.cuh"

namespace sardonyx::host_cuda {

namespace {

using ops::cuda::block_sum;
using ops::cuda::for_elements;
using ops::cuda::Grid;
using ops::cuda::grid_over;
using ops::cuda::Stream;
using ops::cuda::warp_max;
using ops::cuda::warp_sum;

template <class T>
__global__ void increment(int64_t count, const T* from, T* to) {
  for_elements(count, [&](int64_t i) { to[i] = from[i] + T(1); });
}

struct Pair {
  int count;
  const float* from;
  float* to;
};

__global__ void increment_pair(Pair pair) {
  for_elements(pair.count, [&](int64_t i) { pair.to[i] = pair.from[i] + 1; });
}

__global__ void write(int64_t count, float* to) {
  for_elements(count, [&](int64_t i) { to[i] = static_cast<float>(i); });
}

__global__ void write_before(float* to) { to[-1] = 0; }

__global__ void vector_copy(int64_t first, const float* from, float* to) {
  *reinterpret_cast<float4*>(to) = *reinterpret_cast<const float4*>(from + first);
}

__global__ void divergent_barrier(unsigned stop) {
  if (threadIdx.x < stop) __syncthreads();
}

__global__ void divergent_shuffle(unsigned stop) {
  if (threadIdx.x < stop) warp_sum(1.0);
}

__global__ void sum_block(const double* in, double* out) {
  out[threadIdx.x] = block_sum(in[threadIdx.x]);
}

__global__ void sum_warp(const double* in, double* out) {
  out[threadIdx.x] = warp_sum(in[threadIdx.x]);
}

__global__ void max_warp(const float* in, float* out) {
  out[threadIdx.x] = warp_max(in[threadIdx.x]);
}

__global__ void shuffle_down(unsigned distance, const int* in, int* out) {
  out[threadIdx.x] = __shfl_down_sync(0xffffffffu, in[threadIdx.x], distance);
}

template <bool kBarrier>
__global__ void reverse(const int* in, int* out) {
  __shared__ int part[256];
  const unsigned first = blockIdx.x * 256;
  part[threadIdx.x] = in[first + threadIdx.x];
  if constexpr (kBarrier) __syncthreads();
  out[first + threadIdx.x] = part[255 - threadIdx.x];
}

__global__ void nothing(float* to) {
  if (to == nullptr) return;
}

__global__ void block_sums(float* to) {
  const float sum = block_sum(1.0f);
  if (threadIdx.x == 0) to[blockIdx.x] = sum;
}

}  // namespace

void launch_increment(Stream stream, int64_t count, const float* from, float* to) {
  LAUNCH((increment<float>), grid_over(count), stream, count, from, to);
}
void launch_increment_pair(Stream stream, int64_t count, const float* from, float* to) {
  LAUNCH(increment_pair, grid_over(count), stream, Pair{static_cast<int>(count), from, to});
}
void launch_write(Stream stream, int64_t count, float* to) {
  LAUNCH(write, grid_over(count), stream, count, to);
}
void launch_write_before(Stream stream, float* to) {
  LAUNCH(write_before, (Grid{1, 1, 1}), stream, to);
}
void launch_increment_padded(Stream stream, const float* from, float* to) {
  constexpr int kCount = 4;
  Pair pair;
  const void* host = &pair;
  std::memcpy(static_cast<void*>(&pair), &host, sizeof host);
  pair.count = kCount;
  pair.from = from;
  pair.to = to;
  LAUNCH(increment_pair, grid_over(kCount), stream, pair);
}
void launch_vector_copy(Stream stream, int64_t first, const float* from, float* to) {
  LAUNCH(vector_copy, (Grid{1, 1, 1}), stream, first, from, to);
}
void launch_divergent_barrier(Stream stream, unsigned threads, unsigned stop) {
  LAUNCH(divergent_barrier, (Grid{1, 1, threads}), stream, stop);
}
void launch_divergent_shuffle(Stream stream, unsigned threads, unsigned stop) {
  LAUNCH(divergent_shuffle, (Grid{1, 1, threads}), stream, stop);
}
void launch_block_sum(Stream stream, unsigned threads, const double* in, double* out) {
  LAUNCH(sum_block, (Grid{1, 1, threads}), stream, in, out);
}
void launch_warp_sum(Stream stream, unsigned threads, const double* in, double* out) {
  LAUNCH(sum_warp, (Grid{1, 1, threads}), stream, in, out);
}
void launch_warp_max(Stream stream, unsigned threads, const float* in, float* out) {
  LAUNCH(max_warp, (Grid{1, 1, threads}), stream, in, out);
}
void launch_shuffle_down(Stream stream, unsigned distance, const int* in, int* out) {
  LAUNCH(shuffle_down, (Grid{1, 1, 32}), stream, distance, in, out);
}
void launch_reverse(Stream stream, unsigned blocks, Barrier barrier, const int* in, int* out) {
  if (barrier == Barrier::kThere) {
    LAUNCH((reverse<true>), (Grid{blocks}), stream, in, out);
  } else {
    LAUNCH((reverse<false>), (Grid{blocks}), stream, in, out);
  }
}
void launch_nothing(Stream stream, unsigned blocks, float* to) {
  LAUNCH(nothing, (Grid{blocks}), stream, to);
}
void launch_block_sums(Stream stream, unsigned blocks, float* to) {
  LAUNCH(block_sums, (Grid{blocks}), stream, to);
}

}  // namespace sardonyx::host_cuda
