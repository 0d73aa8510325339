// From types and windows to what the kernels of lanes.h take. Not for *_isa.cc files: a copy that
// one of them compiled for its instruction set might be the one that is linked for all.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/type.h"
#include "ops/core/lanes.h"
#include "ops/core/window.h"

namespace sardonyx::ops::lanes {

// Lies in lanes of kLanes images.
bool in_lanes(const graph::TensorType& type);

// The last one may be short.
inline int64_t blocks_of(int64_t images) { return (images + kLanes - 1) / kLanes; }

// A window of one axis has the width only.
enum class SpatialAxis : uint8_t { kHeight, kWidth };
// The entry of that axis; `absent` where the window has no such axis.
int entry_of(const std::vector<int64_t>& entries, SpatialAxis axis, int absent);

// Sizes, steps and begin pads of a window of one or two axes, as ConvShape and PoolShape have them.
template <class Shape>
Shape windowed(const Window& window) {
  const auto height = [](const std::vector<int64_t>& entries, int absent) {
    return entry_of(entries, SpatialAxis::kHeight, absent);
  };
  const auto width = [](const std::vector<int64_t>& entries, int absent) {
    return entry_of(entries, SpatialAxis::kWidth, absent);
  };
  Shape shape{};
  shape.h = height(window.in, 1);
  shape.w = width(window.in, 1);
  shape.r = height(window.kernel, 1);
  shape.s = width(window.kernel, 1);
  shape.p = height(window.out, 1);
  shape.q = width(window.out, 1);
  shape.stride_h = height(window.stride, 1);
  shape.stride_w = width(window.stride, 1);
  shape.dil_h = height(window.dilation, 1);
  shape.dil_w = width(window.dilation, 1);
  shape.pad_top = height(window.pad_begin, 0);
  shape.pad_left = width(window.pad_begin, 0);
  return shape;
}

}  // namespace sardonyx::ops::lanes
