// Walk: the loop nest over elements of several operands, as plain data that a CUDA kernel gets by
// value; ops/core/walk.cuh finds the places of an element.
//
// The last axis of a LoopNest is its innermost one. A Walk has merged axes and counts them from the
// innermost outwards. Neither says what is done at an element.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/core/kernel.h"
#include "ops/core/walk.h"

namespace sardonyx::ops::cuda {

struct LoopNest {
  std::vector<int64_t> sizes;
  std::vector<std::vector<int64_t>> strides;  // [operand][axis], in elements; zero and negative too

  // Without axes of size 1, neighbours joined where all operands allow it. The order of the steps
  // stays.
  LoopNest merged() const;
};

// Over output 0 in the order of its elements; the operands are the inputs first .. last of a
// broadcasting operator. Layouts are orders of axes.
LoopNest broadcast_nest(const KernelRequest& request, int first, int last);
// A nest of more than kWalkAxes merged axes, as no network has.
Refusal beyond_broadcast_walk();
// An operand that may give its memory to output 0 has its layout.
Refusal unless_full_operands_are_alike();

// Of a merged nest. CHECK: it has at most kWalkAxes axes.
void fill_axes(const LoopNest& merged, WalkAxes& axes, int64_t (*strides)[kWalkAxes]);

template <int kOperands>
Walk<kOperands> walk_of(const LoopNest& nest) {
  Walk<kOperands> walk;
  fill_axes(nest.merged(), walk, walk.strides);
  return walk;
}

// Walk over output 0 and the first kOperands inputs.
template <int kOperands>
Walk<kOperands> broadcast_walk(const KernelRequest& request) {
  return walk_of<kOperands>(broadcast_nest(request, 0, kOperands - 1));
}

}  // namespace sardonyx::ops::cuda
