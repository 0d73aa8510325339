// What the operators of the room search for, and along which axis. Private to ops/search.
#pragma once

#include <cstdint>

#include "ops/core/op.h"

namespace sardonyx::ops::search {

enum class Goal : uint8_t { kLargest, kSmallest };

// Hardmax: 1 where all axes from `axis` on are one.
inline constexpr const char* kFlatten = "flatten";

// The attribute `axis`, by default 0 (TopK, Hardmax: -1), and the same counted from the front.
int64_t axis_attribute(const Node& node);
int axis_of(const Node& node, int rank);

}  // namespace sardonyx::ops::search
