// Geometry of RoiAlign and MaxRoiPool: regions of the maps, cut into bins. Private to the room.
#pragma once

#include <cstdint>

#include "ops/core/kernel.h"

namespace sardonyx::ops::roi {

// Shapes of an operator or its gradient: x [images, channels, height, width], regions [regions,
// ..], y [regions, channels, bins_y, bins_x].
struct RoiGeometry {
  int64_t images, channels, height, width, regions, bins_y, bins_x;
  double scale;  // of the regions' coordinates

  RoiGeometry(const Node& node, const TensorType& x, const TensorType& y);
  int64_t map() const { return height * width; }
  int64_t bins() const { return bins_y * bins_x; }
};

enum class Pooling : uint8_t { kAverage, kMaximum };
// kHalfPixel shifts coordinates by half a cell; without it no region is smaller than a cell.
enum class Corners : uint8_t { kHalfPixel, kWhole };

struct AlignSettings {
  Pooling pooling;
  Corners corners;
  int64_t samples;  // per bin and axis; 0: as many as the bin has cells

  // Throws ConstraintError.
  static AlignSettings of(const Node& node);
};

}  // namespace sardonyx::ops::roi
