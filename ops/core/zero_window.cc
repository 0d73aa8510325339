#include "ops/core/zero_window.h"

#include <algorithm>

namespace sardonyx::ops {

std::optional<ZeroWindow> zero_window_of(const Node& node) {
  if (node.domain != kDomain || node.op != "SliceGrad") return std::nullopt;
  if (!node.input(0)->type.is_static()) return std::nullopt;
  const std::vector<int64_t> steps = node.get_ints("steps", {});
  if (std::ranges::any_of(steps, [](int64_t step) { return step != 1; })) return std::nullopt;
  return ZeroWindow{node.get_ints("starts", {}), node.input(0)->type.shape()};
}

std::optional<int> filled_axis(const std::vector<ZeroWindow>& windows,
                               const std::vector<int64_t>& shape) {
  std::optional<int> cut;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    int64_t end = 0;
    bool whole = true, filled = true;
    for (const ZeroWindow& window : windows) {
      whole &= window.starts[axis] == 0 && window.counts[axis] == shape[axis];
      filled &= window.starts[axis] == end;
      end += window.counts[axis];
    }
    if (whole) continue;
    if (cut || !filled || end != shape[axis]) return std::nullopt;
    cut = static_cast<int>(axis);
  }
  return cut;
}

}  // namespace sardonyx::ops
