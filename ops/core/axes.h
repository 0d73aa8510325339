// Axis numbers as ONNX writes them: negative ones count from the end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/type.h"

namespace sardonyx::ops {

// The axis counted from the front. Throws Error "axis 5 is out of range [-3, 2] for rank 3"; `what`
// names the number ("axis", "axes[1]").
int checked_axis(int64_t axis, int rank, const char* what = "axis");
// All of them, each in range and none twice.
std::vector<int> checked_axes(const std::vector<int64_t>& axes, int rank);
// The same for an axis that was checked before.
inline int front_axis(int64_t axis, int rank) {
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

// False when both sizes are known and differ.
bool agree(const graph::Dim& a, const graph::Dim& b);
// The dimension of an axis that two operands share: the size from the one that knows it, the symbol
// from the one that has one (the batch's where they differ).
graph::Dim merged(const graph::Dim& a, const graph::Dim& b, const std::string& batch_symbol);

}  // namespace sardonyx::ops
