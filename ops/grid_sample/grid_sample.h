// Where GridSample reads. Private to ops/grid_sample.
#pragma once

#include "ops/core/composed.h"

namespace sardonyx::ops::grid_sample {

enum class Mode : uint8_t { kNearest, kLinear, kCubic };
enum class Padding : uint8_t { kZeros, kBorder, kReflection };
// Which of x's edges -1 and 1 are: the middles of its outermost cells, or their outer sides.
enum class Corners : uint8_t { kMiddles, kSides };

struct Settings {
  Mode mode = Mode::kLinear;
  Padding padding = Padding::kZeros;
  Corners corners = Corners::kSides;

  // Throws ConstraintError (G3).
  static Settings of(const Node& node);
};

inline constexpr int kMostAxes = 3;
inline constexpr int kMostTaps = 4;  // along an axis

// The cells along one axis that make a sample.
template <class T>
struct AxisTaps {
  int count = 0;
  int64_t cell[kMostTaps];  // -1: beyond the edge, where there are zeros
  T weight[kMostTaps];
  T slope[kMostTaps];  // of the weight, by the number in the grid
};

// Of the number g of a grid, on an axis of `size` cells (one at least).
template <class T>
AxisTaps<T> axis_taps(const Settings& settings, T g, int64_t size);

void write_affine_grid(ComposeContext& context);
void register_affine_grid(OpRegistry& ops);

}  // namespace sardonyx::ops::grid_sample
