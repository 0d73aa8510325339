// What slice_pad.cu launches. Private to the room.
#pragma once

#include <cstdint>

#include "graph/type.h"
#include "ops/core/cuda.h"
#include "ops/core/walk.h"
#include "ops/slice_pad/pad_mode.h"

namespace sardonyx::ops {

// The axes of Pad, innermost first, neighbours without pads joined.
struct PadNest {
  // PadAxis of slice_pad.h, resolved: `kept` elements of x from `first` on stand in y from `front`
  // on.
  struct Axis {
    int64_t x_size, y_size, first, kept, front;
  };
  PadMode mode = PadMode::kConstant;
  int axes = 0;
  bool narrow = true;  // x and y have fewer than 2^31 elements
  int64_t x_count = 1, y_count = 1;
  Axis axis[cuda::kWalkAxes] = {};
};

// What stands around x: the element at `at` in device memory, or where that is null the one whose
// bytes are the first of `bits`.
struct PadValue {
  const void* at = nullptr;
  uint64_t bits = 0;
};
void launch_pad(cuda::Stream stream, int bytes, const PadNest& nest, const PadValue& value,
                const void* x, void* y);
void launch_pad_grad(cuda::Stream stream, graph::DType dtype, const PadNest& nest, const void* dy,
                     void* dx);

}  // namespace sardonyx::ops
