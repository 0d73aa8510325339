// What activation.cu launches. Private to the room.
#pragma once

#include <cstdint>

#include "graph/type.h"
#include "ops/activation/activation.h"
#include "ops/core/cuda.h"

namespace sardonyx::ops::activation {

// One run of a loop over n elements. A bound of Clip stands in device memory: where p_at or q_at is
// given, it is read there.
struct Launch {
  Loop loop;
  graph::DType dtype;
  int64_t n;
  Numbers numbers;
  const void *p_at, *q_at;
  const void *a, *b;  // b: where the loop reads it
  void* y;
};
void launch(cuda::Stream stream, const Launch& launch);
// Clip of int32 and int64; a bound that is null is none.
void launch_integer_clip(cuda::Stream stream, graph::DType dtype, int64_t n, const void* lo,
                         const void* hi, const void* x, void* y);

}  // namespace sardonyx::ops::activation
