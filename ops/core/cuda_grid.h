// How many blocks and threads a launch has; beside cuda.cuh, for sources that no device compiler
// reads.
#pragma once

namespace sardonyx::ops::cuda {

inline constexpr int kBlock = 256;  // threads of a block, unless a kernel has a reason

// Blocks of `threads` threads each.
struct Grid {
  unsigned x = 1, y = 1;
  unsigned threads = kBlock;
};

}  // namespace sardonyx::ops::cuda
