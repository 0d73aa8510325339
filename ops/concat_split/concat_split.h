// Sizes of the parts of a Split; private to the room.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/core/op.h"

namespace sardonyx::ops {

// Size of each output of a Split along an axis of `size` elements; `listed`: input 1. Throws Error
// when they don't add up.
std::vector<int64_t> split_sizes(const Node& node, int64_t size,
                                 const std::optional<std::vector<int64_t>>& listed);

}  // namespace sardonyx::ops
