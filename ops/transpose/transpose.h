// The permutation of a Transpose node, and the copy that it is; private to the room.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/core/op.h"
#include "ops/core/strided.h"

namespace sardonyx::ops {

// perm of the node, or the axes reversed.
std::vector<int64_t> permutation(const Node& node, int rank);
// Input 0 to output 0, as stored.
StridedBox transpose_box(const KernelRequest& request);  // transpose_cpu.cc

}  // namespace sardonyx::ops
