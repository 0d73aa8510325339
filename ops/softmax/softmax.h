// What is normalised, decoded from the node; private to the room.
#pragma once

#include <cstdint>

#include "ops/core/lines.h"
#include "ops/core/op.h"

namespace sardonyx::ops::softmax {

// Softmax below opset 13: not one axis, but all from `axis` on are normalised together.
inline constexpr const char* kFlatten = "flatten";

// The first normalised axis, counted from the front. Throws Error (plate number C2) when it is out
// of range.
int64_t first_axis(const Node& node, int64_t rank);

// What is normalised together: a line is a group. In lanes the images are inner axes.
Lines groups_of(const Node& node, const TensorType& x);

}  // namespace sardonyx::ops::softmax
