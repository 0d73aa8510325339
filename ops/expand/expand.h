// The copies that Expand and Tile are; private to the room.
#pragma once

#include "ops/core/strided.h"

namespace sardonyx::ops {

// Input 0 to output 0, as stored.
StridedBox expand_box(const KernelRequest& request);
StridedBox tile_box(const KernelRequest& request);

}  // namespace sardonyx::ops
