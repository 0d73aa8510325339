#include "ops/core/axes.h"

#include <algorithm>

#include "graph/support/error.h"

namespace sardonyx::ops {

int checked_axis(int64_t axis, int rank, const char* what) {
  if (axis < -rank || axis >= rank) {
    throw Error("{} {} is out of range [{}, {}] for rank {}", what, axis, -rank, rank - 1, rank);
  }
  return front_axis(axis, rank);
}

std::vector<int> checked_axes(const std::vector<int64_t>& axes, int rank) {
  std::vector<int> result;
  for (int64_t axis : axes) {
    result.push_back(checked_axis(axis, rank));
    if (std::count(result.begin(), result.end(), result.back()) > 1) {
      throw Error("axis {} is listed twice", axis);
    }
  }
  return result;
}

bool agree(const graph::Dim& a, const graph::Dim& b) {
  return !a.known() || !b.known() || a.value == b.value;
}

graph::Dim merged(const graph::Dim& a, const graph::Dim& b, const std::string& batch_symbol) {
  const bool b_is_batch = !batch_symbol.empty() && b.symbol == batch_symbol;
  graph::Dim result = a.symbol.empty() || b_is_batch ? b : a;
  result.value = a.known() ? a.value : b.value;
  return result;
}

}  // namespace sardonyx::ops
