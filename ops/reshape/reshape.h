// How the axes of a dense array turn into those of another shape with the same elements; private to
// the room.
//
// Sizes alone would lose the batch: [N:8,5,64] -> [40,64] -> [8,5,64]. So a merged axis that holds
// the batch carries its factors as a symbol ("N*5", outermost first), and splitting it again gives
// the batch axis back.
#pragma once

#include <string>
#include <vector>

#include "ops/core/op.h"

namespace sardonyx::ops {

// One axis of the target of a Reshape.
struct TargetAxis {
  enum class Kind : uint8_t { kSize, kCopy, kRest };
  Kind kind = Kind::kSize;
  int64_t size = 0;  // kSize: the number; kCopy: the axis of the input
};

// The dimensions of `target` over an array of dimensions `from`. At most one axis is kRest. Throws
// Error when the numbers of elements differ (naming the batch when it is the cause).
std::vector<Dim> reshaped_dims(const std::vector<Dim>& from, const std::vector<TargetAxis>& target,
                               const std::string& batch_symbol);

// The dimension of axes begin .. end - 1 taken together.
Dim merged_axes(const std::vector<Dim>& from, size_t begin, size_t end,
                const std::string& batch_symbol);

}  // namespace sardonyx::ops
