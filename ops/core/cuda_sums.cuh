// The walk of one block over its channels (cuda_sums.h), for kernels that add something up per
// channel or have numbers per channel.
#pragma once

#include "ops/core/cuda_packs.cuh"
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

// Calls f.template operator()<kWidth, kAcross>(cells) with the cells in packs of 16 bytes, where
// they can be: kWidth elements, of one channel (kAcross 1) or of as many (kAcross kWidth).
// `aligned`: all pointers are aligned_for_packs.
template <class T, class F>
void with_packs(const ChannelCells& cells, bool aligned, const F& f) {
  constexpr int kMost = 16 / static_cast<int>(sizeof(T));
  if (aligned && cells.in_packs_of_channels(kMost)) {
    return f.template operator()<kMost, kMost>(cells.packs_of_channels(kMost));
  }
  if (aligned && cells.in_packs_of_cells(kMost)) {
    return f.template operator()<kMost, 1>(cells.packs_of_cells(kMost));
  }
  f.template operator()<1, 1>(cells);
}

// Sums over a block of kBlock threads per lane: thread t has `mine`, of lane t % lanes (a power of
// two up to kWarp). All threads must make one, once in a kernel.
template <int kNumbers>
class LaneSums {
 public:
  __device__ LaneSums(double (&mine)[kNumbers], int lanes) {
    __shared__ double parts[kBlock / kWarp][kNumbers][kWarp];
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    for (int k = 0; k < kNumbers; ++k) {
      for (int distance = kWarp / 2; distance >= lanes; distance /= 2) {
        mine[k] += __shfl_xor_sync(0xffffffffu, mine[k], distance);
      }
      if (lane < lanes) parts[warp][k][lane] = mine[k];
    }
    __syncthreads();
    parts_ = &parts[0][0][0];
  }
  __device__ double of(int number, int lane) const {
    double sum = 0;
    for (int warp = 0; warp < kBlock / kWarp; ++warp) {
      sum += parts_[(warp * kNumbers + number) * kWarp + lane];
    }
    return sum;
  }

 private:
  const double* parts_;
};

// Writes the partial sums of this block, kSums numbers for each of the kAcross channels that a
// thread's channel stands for: partials[(sum * pieces + piece) * channels + channel].
template <int kSums, int kAcross>
__device__ inline void store_partials(const ChannelWalk& walk, double (&mine)[kSums * kAcross],
                                      double* partials) {
  const int lanes = walk.channel_lanes;
  const LaneSums<kSums * kAcross> sums(mine, lanes);
  const int64_t channels = walk.cells.channels * kAcross;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * lanes * kAcross;
  for (int i = static_cast<int>(threadIdx.x); i < kSums * lanes * kAcross; i += kBlock) {
    const int sum = i / (lanes * kAcross), channel = i % (lanes * kAcross);
    if (first + channel >= channels) continue;
    const int64_t piece = static_cast<int64_t>(sum) * gridDim.y + blockIdx.y;
    partials[piece * channels + first + channel] =
        sums.of(sum * kAcross + channel % kAcross, channel / kAcross);
  }
}

// --- the second stage, a kernel on finish_grid(channels)

inline constexpr int kFinishLanes = 8;  // channels of a block

inline Grid finish_grid(int64_t channels) {
  return {static_cast<unsigned>((channels + kFinishLanes - 1) / kFinishLanes)};
}

// f(channel, sums) for each channel, by one thread; sums: double[kSums].
template <int kSums, class F>
__device__ inline void finish_sums(const double* partials, int64_t pieces, int64_t channels,
                                   const F& f) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kFinishLanes;
  const int64_t channel = static_cast<int64_t>(blockIdx.x) * kFinishLanes + lane;
  double mine[kSums] = {};
  if (channel < channels) {
    for (int64_t piece = thread / kFinishLanes; piece < pieces; piece += kBlock / kFinishLanes) {
      const double* of_piece = partials + piece * channels + channel;
      for (int k = 0; k < kSums; ++k) mine[k] += of_piece[k * pieces * channels];
    }
  }
  const LaneSums<kSums> sums(mine, kFinishLanes);
  if (thread >= kFinishLanes || channel >= channels) return;
  double totals[kSums];
  for (int k = 0; k < kSums; ++k) totals[k] = sums.of(k, lane);
  f(channel, totals);
}

inline Grid grid_of(const ChannelGrid& grid) {
  return {static_cast<unsigned>(grid.blocks), static_cast<unsigned>(grid.pieces)};
}

}  // namespace sardonyx::ops::cuda
