// What a pass may know of operators that put their operand into zeros.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/core/op.h"

namespace sardonyx::ops {

// Output 0 is zero but for a box without gaps, which holds input 0.
struct ZeroWindow {
  std::vector<int64_t> starts, counts;  // per axis
};

// nullopt: the node is something else, or its shapes aren't known.
std::optional<ZeroWindow> zero_window_of(const Node& node);

// The axis along which windows in zeros of `shape` lie one behind the other and fill it; their
// order is that of the list. nullopt: they don't.
std::optional<int> filled_axis(const std::vector<ZeroWindow>& windows,
                               const std::vector<int64_t>& shape);

}  // namespace sardonyx::ops
