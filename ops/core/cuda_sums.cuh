// The walk of one block over its channels (cuda_sums.h), for kernels that add something up per
// channel.
#pragma once

#include "ops/core/cuda.cuh"
#include "ops/core/cuda_sums.h"

namespace sardonyx::ops::cuda {

// ChannelGrid as a kernel gets it, and the part of this thread.
struct ChannelWalk {
  ChannelCells cells;
  int channel_lanes, cell_lanes;
  int64_t rows_per_piece;

  ChannelWalk(const ChannelCells& what, const ChannelGrid& grid)
      : cells(what),
        channel_lanes(grid.channel_lanes),
        cell_lanes(grid.cell_lanes),
        rows_per_piece(grid.rows_per_piece) {}

  __device__ int64_t channel() const {
    return static_cast<int64_t>(blockIdx.x) * channel_lanes +
           static_cast<int>(threadIdx.x) % channel_lanes;
  }
  __device__ bool has_channel() const { return channel() < cells.channels; }

  // f(element) for what this thread takes of its channel, always in the same order.
  template <class F>
  __device__ void each(const F& f) const {
    const int thread = static_cast<int>(threadIdx.x) / channel_lanes;
    const int row_lanes = static_cast<int>(blockDim.x) / (channel_lanes * cell_lanes);
    const int64_t begin = static_cast<int64_t>(blockIdx.y) * rows_per_piece;
    const int64_t end = begin + rows_per_piece < cells.rows ? begin + rows_per_piece : cells.rows;
    for (int64_t row = begin + thread / cell_lanes; row < end; row += row_lanes) {
      const int64_t first = row * cells.row_stride + channel() * cells.channel_stride;
      for (int64_t i = thread % cell_lanes; i < cells.cells; i += cell_lanes) {
        f(first + i * cells.cell_stride);
      }
    }
  }
};

// Adds up two numbers per channel over a block of kBlock threads; the first threads, one per
// channel lane, get the sums. All threads must call.
struct TwoSums {
  double first, second;
};
__device__ inline TwoSums sum_per_lane(TwoSums mine, int channel_lanes) {
  __shared__ double first[kBlock], second[kBlock];
  const int thread = static_cast<int>(threadIdx.x);
  first[thread] = mine.first;
  second[thread] = mine.second;
  __syncthreads();
  for (int half = kBlock / 2; half >= channel_lanes; half /= 2) {
    if (thread < half) {
      first[thread] += first[thread + half];
      second[thread] += second[thread + half];
    }
    __syncthreads();
  }
  return {first[thread], second[thread]};
}

// Writes the partial sums of this block: partials[piece * channels + channel], and those of the
// second number behind all of the first.
__device__ inline void store_partials(const ChannelWalk& walk, TwoSums mine, double* partials,
                                      double* second_partials) {
  const TwoSums sums = sum_per_lane(mine, walk.channel_lanes);
  if (static_cast<int>(threadIdx.x) >= walk.channel_lanes || !walk.has_channel()) return;
  const int64_t at = static_cast<int64_t>(blockIdx.y) * walk.cells.channels + walk.channel();
  partials[at] = sums.first;
  if (second_partials != nullptr) second_partials[at] = sums.second;
}

// The sum over the pieces of a channel.
__device__ inline double sum_of_pieces(const double* partials, int64_t pieces, int64_t channels,
                                       int64_t channel) {
  double sum = 0;
  for (int64_t piece = 0; piece < pieces; ++piece) sum += partials[piece * channels + channel];
  return sum;
}

inline Grid grid_of(const ChannelGrid& grid) {
  return {static_cast<unsigned>(grid.blocks), static_cast<unsigned>(grid.pieces)};
}

}  // namespace sardonyx::ops::cuda
