// What the operators of the room search for, and where. Private to ops/search.
#pragma once

#include <cstdint>

#include "ops/core/kernel.h"

namespace sardonyx::ops::search {

enum class Goal : uint8_t { kLargest, kSmallest };

// The lines along one axis of input 0: element i of line l is at first(l) + i * inner.
struct Lines {
  int64_t count = 0, length = 0, inner = 1;

  explicit Lines(const KernelRequest& request);
  int64_t first(int64_t line) const { return line / inner * length * inner + line % inner; }
};

// The attribute `axis`, by default 0 (TopK: -1), and the same counted from the front.
int64_t axis_attribute(const Node& node);
int axis_of(const Node& node, int rank);

}  // namespace sardonyx::ops::search
