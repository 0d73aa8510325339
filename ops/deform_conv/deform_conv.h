// Geometry of DeformConv's columns, decoded once for the operator that cuts them and its two
// gradients. Private to the room.
#pragma once

#include <array>
#include <cstdint>

#include "ops/core/composed.h"
#include "ops/core/kernel.h"
#include "ops/core/window.h"

namespace sardonyx::ops::deform_conv {

inline constexpr int kMostAxes = 3;

// The nodes that a DeformConv consists of.
void write_deform_conv(ComposeContext& c);

struct ColumnGeometry {
  int64_t batch, channels, groups;  // groups of channels that share their offsets
  int64_t taps, cells, map;         // of the kernel, of y, of x
  Window window;

  // x and columns are the types of DeformColumns' first operand and of its output.
  ColumnGeometry(const Node& node, const TensorType& x, const TensorType& columns);
  int axes() const { return window.axes(); }
  int64_t group_channels() const { return channels / groups; }
};

// A place between cells of x: the cells around it and their weights. Cells outside of x have none.
struct Sample {
  static constexpr int kCorners = 1 << kMostAxes;
  std::array<double, kMostAxes> part;         // how far from the lower cell, per axis
  std::array<bool, 2 * kMostAxes> inside;     // lower, upper cell per axis
  std::array<int64_t, 2 * kMostAxes> offset;  // their part of the place in the map
  int axes;

  // Calls f(cell of the map, corner) for those that lie in the map; bit a of `corner`: the upper
  // one along axis a.
  template <class F>
  void each_cell(F f) const {
    for (int corner = 0; corner < 1 << axes; ++corner) {
      int64_t cell = 0;
      bool there = true;
      for (int a = 0; a < axes; ++a) {
        const int end = 2 * a + ((corner >> a) & 1);
        there = there && inside[end];
        cell += offset[end];
      }
      if (there) f(cell, corner);
    }
  }
  // Of a corner, without axis `without` (-1: all count).
  double weight(int corner, int without = -1) const {
    double result = 1;
    for (int a = 0; a < axes; ++a) {
      if (a != without) result *= ((corner >> a) & 1) != 0 ? part[a] : 1 - part[a];
    }
    return result;
  }
};

}  // namespace sardonyx::ops::deform_conv
