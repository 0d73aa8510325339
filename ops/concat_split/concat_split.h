// Sizes of the parts of a Split, and the copies that both operators are; private to the room.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/core/op.h"
#include "ops/core/strided.h"

namespace sardonyx::ops {

// Size of each output of a Split along an axis of `size` elements; `listed`: input 1. Throws Error
// when they don't add up.
std::vector<int64_t> split_sizes(const Node& node, int64_t size,
                                 const std::optional<std::vector<int64_t>>& listed);

// A part and its place in the whole, as stored. `operand`: the input of Concat, the output of
// Split; outputs that are left out are no part.
struct PartCopy {
  int operand;
  StridedBox box;
};
std::vector<PartCopy> concat_copies(const KernelRequest& request);  // concat_split_cpu.cc
std::vector<PartCopy> split_copies(const KernelRequest& request);

}  // namespace sardonyx::ops
