// What strided.cu launches, for ops/core/cuda_strided.cc.
#pragma once

#include "ops/core/cuda.h"
#include "ops/core/walk.h"

namespace sardonyx::ops::cuda {

// Planes of height x width elements: dst[i * dst_step + j] = src[i + j * src_step]. A block moves a
// tile at once.
struct Tiles {
  // Elements of a tile in shared memory, where its columns begin an odd number of them apart.
  static constexpr int kMost = 32 * 33;

  int64_t height = 0, width = 0;
  int64_t src_step = 0, dst_step = 0;
  int tile_height = 0, tile_width = 0;  // (tile_height | 1) * tile_width is at most kMost
  Walk<2> planes;                       // where a plane begins in src and dst
};

// Elements of 1, 2, 4, 8 or 16 bytes. Operand 0 of a walk is src, operand 1 dst.
void launch_steps(Stream stream, int bytes, const Walk<2>& walk, const void* src, void* dst);
void launch_tiles(Stream stream, int bytes, const Tiles& tiles, const void* src, void* dst);
// n elements that are all the one at `value`, in the host's memory.
void launch_fill(Stream stream, int bytes, int64_t n, const void* value, void* dst);

}  // namespace sardonyx::ops::cuda
