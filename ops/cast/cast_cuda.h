// What cast.cu launches. Private to the room.
#pragma once

#include <cstdint>

#include "graph/type.h"
#include "ops/core/cuda.h"

namespace sardonyx::ops::cast {

// float, double, bfloat16, integers and bool.
void launch(cuda::Stream stream, graph::DType from, graph::DType to, int64_t n, const void* x,
            void* y);

}  // namespace sardonyx::ops::cast
