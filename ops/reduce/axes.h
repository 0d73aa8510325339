// Which axes a reduction removes. Private to ops/reduce.
#pragma once

#include <vector>

#include "ops/core/op.h"

namespace sardonyx::ops::reduce {

// One flag per axis of input 0. `axes`: input 1, or nullptr when left out. Throws ConstraintError
// C1 and C2 (plate of reduce.cc).
std::vector<bool> reduced_axes(const Node& node, const Tensor* axes, int rank);
// The same for gradient operators, whose axes are an attribute.
std::vector<bool> attribute_axes(const Node& node, int rank);

}  // namespace sardonyx::ops::reduce
