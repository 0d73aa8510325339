// Where the elements of DepthToSpace and SpaceToDepth go. Private to ops/depth_to_space.
#pragma once

#include <cstdint>

#include "ops/core/op.h"

namespace sardonyx::ops::depth_to_space {

// Order of the axes that make up the channels on the deep side: block row, block column, channel
// (DCR), or channel first (CRD).
enum class Order : uint8_t { kDcr, kCrd };

Order order_of(const Node& node);

}  // namespace sardonyx::ops::depth_to_space
