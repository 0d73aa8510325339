// What lrn.cu launches. Private to the room.
#pragma once

#include <cstdint>

#include "graph/type.h"
#include "ops/core/cuda.h"

namespace sardonyx::ops::lrn {

// x as [outer][channels][inner]; a channel is divided by the squares of itself, the `before` ones
// in front of it and the `behind` ones after it.
struct Norm {
  int64_t outer, channels, inner;
  int64_t before, behind;
  double weight, beta, bias;
};

void launch(cuda::Stream stream, graph::DType dtype, const Norm& norm, const void* x, void* y);
void launch_gradient(cuda::Stream stream, graph::DType dtype, const Norm& norm, const void* x,
                     const void* dy, void* dx);

}  // namespace sardonyx::ops::lrn
