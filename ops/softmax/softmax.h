// What is normalised, decoded from the node; private to the room.
#pragma once

#include <cstdint>

#include "ops/core/op.h"

namespace sardonyx::ops::softmax {

// Softmax below opset 13: not one axis, but all from `axis` on are normalised together.
inline constexpr const char* kFlatten = "flatten";

// The first normalised axis, counted from the front. Throws Error (plate number C2) when it is out
// of range.
int64_t first_axis(const Node& node, int64_t rank);

// Element c of group (o, i) is x[(o * length + c) * inner + i].
struct Groups {
  int64_t outer = 1, length = 1, inner = 1;

  static Groups of(const Node& node, const std::vector<int64_t>& shape);
};

}  // namespace sardonyx::ops::softmax
