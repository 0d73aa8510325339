// Which axes a Shape node reads; private to the room.
#pragma once

#include <utility>

#include "ops/core/op.h"

namespace sardonyx::ops {

// First axis and one behind the last, clamped to [0, rank].
std::pair<int64_t, int64_t> shape_range(const Node& node, int rank);

}  // namespace sardonyx::ops
