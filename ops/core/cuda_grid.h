// How many blocks and threads a launch has, and what it never does; beside cuda.cuh, for sources
// that no device compiler reads.
#pragma once

#include "graph/type.h"

namespace sardonyx::ops::cuda {

inline constexpr int kBlock = 256;  // threads of a block, unless a kernel has a reason

// Blocks of `threads` threads each.
struct Grid {
  unsigned x = 1, y = 1;
  unsigned threads = kBlock;
};

// Throws InternalError: what the kernels decline has let elements of this type through.
[[noreturn]] void refuse_dtype(graph::DType dtype);

}  // namespace sardonyx::ops::cuda
