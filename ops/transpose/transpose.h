// The permutation of a Transpose node; private to the room.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/core/op.h"

namespace sardonyx::ops {

// perm of the node, or the axes reversed.
std::vector<int64_t> permutation(const Node& node, int rank);

}  // namespace sardonyx::ops
