// Offsets for buffers with lifetimes: greedy by size, each into the smallest gap that fits over its
// whole life. That asks every buffer about every other, so very many are placed in order of time.
#pragma once

#include <cstddef>
#include <vector>

namespace sardonyx::passes {

struct Buffer {
  size_t bytes = 0;
  int first = 0;  // first and last time step at which it is alive, inclusive
  int last = 0;
  size_t offset = 0;  // the result
};

inline constexpr size_t kAlignment = 64;
// Of what lies in the arena of a CUDA device: its libraries expect of a workspace what cudaMalloc
// gives.
inline constexpr size_t kDeviceAlignment = 256;
inline size_t align_up(size_t bytes, size_t to = kAlignment) { return (bytes + to - 1) / to * to; }

// More buffers than this (networks of some ten thousand nodes) are placed in order of time: n log
// n, for a few percent of memory.
inline constexpr size_t kManyBuffers = 16384;

// Fills `offset` of each buffer, a multiple of `alignment`, so that buffers alive at the same time
// don't overlap; returns the bytes needed.
size_t assign_offsets(std::vector<Buffer>& buffers, size_t alignment = kAlignment);

// The largest sum of sizes alive at one time, and that time: no plan can need less.
struct LivenessBound {
  size_t bytes = 0;
  int time = 0;
};
LivenessBound liveness_bound(const std::vector<Buffer>& buffers);

}  // namespace sardonyx::passes
