// What dropout.cu launches. Private to ops/dropout.
#pragma once

#include <cstdint>

#include "graph/type.h"
#include "ops/core/cuda.h"

namespace sardonyx::ops::dropout {

// x [rows][elements], row 0 is sample `first_sample` of the stream of random numbers.
struct Drawn {
  uint64_t stream = 0;
  int64_t first_sample = 0, rows = 0, elements = 0;
  uint64_t threshold = 0;  // bits below it drop an element; 2^32 drops all
};

// mask may be null.
void launch_drop(cuda::Stream stream, graph::DType dtype, const Drawn& drawn, double scale,
                 const void* x, void* y, uint8_t* mask);
void launch_gradient(cuda::Stream stream, graph::DType dtype, int64_t n, double scale,
                     const void* dy, const uint8_t* mask, void* dx);
// mask[i] = 1, in its own type: bool or float.
void launch_ones(cuda::Stream stream, graph::DType dtype, int64_t n, void* mask);

}  // namespace sardonyx::ops::dropout
