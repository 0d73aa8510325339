// What softmax.cu launches. Private to the room.
#pragma once

#include <cstdint>

#include "graph/type.h"
#include "ops/core/cuda.h"

namespace sardonyx::ops::softmax {

enum class Which : uint8_t { kSoftmax, kLogSoftmax, kSoftmaxGrad, kLogSoftmaxGrad };

// Groups as Lines: element c of a group stands `inner` elements behind element c - 1.
struct Groups {
  int64_t outer, length, inner;
};

// `a` is x or, for a gradient, y; `b` is then dy.
void launch(cuda::Stream stream, graph::DType dtype, Which which, const Groups& groups,
            const void* a, const void* b, void* to);

}  // namespace sardonyx::ops::softmax
