#include "ops/core/lane_shapes.h"

namespace sardonyx::ops::lanes {

bool in_lanes(const graph::TensorType& type) { return type.layout.lane_count() == kLanes; }

int entry_of(const std::vector<int64_t>& entries, SpatialAxis axis, int absent) {
  if (axis == SpatialAxis::kWidth) return static_cast<int>(entries.back());
  return entries.size() < 2 ? absent : static_cast<int>(entries.end()[-2]);
}

}  // namespace sardonyx::ops::lanes
