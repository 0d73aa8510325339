// The plain data of a Walk (ops/core/cuda_walk.h makes it, ops/core/walk.cuh reads it).
#pragma once

#include <cstdint>

namespace sardonyx::ops::cuda {

inline constexpr int kWalkAxes = 8;

struct WalkAxes {
  int64_t count = 1;   // steps in all
  int axes = 0;        // axis 0 is the innermost
  bool narrow = true;  // steps and places fit into 31 bits
  bool dense = true;   // step i is element i of every operand
  int64_t sizes[kWalkAxes] = {};
};

template <int kOperands>
struct Walk : WalkAxes {
  int64_t strides[kOperands][kWalkAxes] = {};
};

}  // namespace sardonyx::ops::cuda
