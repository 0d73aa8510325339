// Kernels that do what the stand-in must catch, and the sums of ops/core/cuda.cuh one by one.
#pragma once

#include <cstdint>

#include "ops/core/cuda.h"

namespace sardonyx::host_cuda {

// to[i] = from[i] + 1
void launch_increment(ops::cuda::Stream stream, int64_t count, const float* from, float* to);
// The same with both pointers inside a struct.
void launch_increment_pair(ops::cuda::Stream stream, int64_t count, const float* from, float* to);
// Writes count floats from `to` on, whether they are there or not.
void launch_write(ops::cuda::Stream stream, int64_t count, float* to);
// Writes the float before `to`.
void launch_write_before(ops::cuda::Stream stream, float* to);
// launch_increment_pair of 4 with half of a host pointer in the padding of the struct.
void launch_increment_padded(ops::cuda::Stream stream, const float* from, float* to);
// Reads 4 floats at a time from `from` + first on.
void launch_vector_copy(ops::cuda::Stream stream, int64_t first, const float* from, float* to);
// A barrier that the threads from `stop` on don't reach; a shuffle likewise.
void launch_divergent_barrier(ops::cuda::Stream stream, unsigned threads, unsigned stop);
void launch_divergent_shuffle(ops::cuda::Stream stream, unsigned threads, unsigned stop);
// out[thread] = block_sum or warp_sum or warp_max of in[thread], one block.
void launch_block_sum(ops::cuda::Stream stream, unsigned threads, const double* in, double* out);
void launch_warp_sum(ops::cuda::Stream stream, unsigned threads, const double* in, double* out);
void launch_warp_max(ops::cuda::Stream stream, unsigned threads, const float* in, float* out);
// out[thread] = in[thread + distance] of the warp, its own where there is none.
void launch_shuffle_down(ops::cuda::Stream stream, unsigned distance, const int* in, int* out);
// to[i] = in[count - 1 - i] within blocks of 256 through __shared__, with or without the barrier.
enum class Barrier : uint8_t { kThere, kForgotten };
void launch_reverse(ops::cuda::Stream stream, unsigned blocks, Barrier barrier, const int* in,
                    int* out);
// For measuring: `blocks` blocks of 256 threads that do nothing, or one block_sum each.
void launch_nothing(ops::cuda::Stream stream, unsigned blocks, float* to);
void launch_block_sums(ops::cuda::Stream stream, unsigned blocks, float* to);

}  // namespace sardonyx::host_cuda
