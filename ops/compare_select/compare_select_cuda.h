// What compare_select.cu launches. Private to the room.
#pragma once

#include <cstdint>

#include "graph/type.h"
#include "ops/core/cuda.h"
#include "ops/core/walk.h"

namespace sardonyx::ops::compare_select {

enum class Test : uint8_t {
  kEqual,
  kLess,
  kGreater,
  kLessOrEqual,
  kGreaterOrEqual,
  kAnd,
  kOr,
  kXor,
};

// Booleans are bytes. Operands of float, double, int32, int64, uint8 and bool.
void launch_test(cuda::Stream stream, graph::DType dtype, Test test, const cuda::Walk<2>& walk,
                 const void* a, const void* b, void* y);
void launch_not(cuda::Stream stream, int64_t n, const void* x, void* y);
// Elements of 1, 2, 4 or 8 bytes.
void launch_where(cuda::Stream stream, int bytes, const cuda::Walk<3>& walk, const void* condition,
                  const void* x, const void* y, void* out);

}  // namespace sardonyx::ops::compare_select
