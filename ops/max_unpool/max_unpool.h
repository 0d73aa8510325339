// UnpoolGeometry: where a cell of MaxUnpool's x goes in y, decoded once for the operator and its
// gradient. Private to the room.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/core/kernel.h"

namespace sardonyx::ops::max_unpool {

// Spatial sizes of the map whose cells `indices` number, by strides, pads and kernel_shape of the
// node; -1: not known. `x`: spatial sizes of x. Throws ConstraintError.
std::vector<int64_t> map_sizes(const Node& node, const std::vector<int64_t>& x);

class UnpoolGeometry {
 public:
  // x has the shape of indices.
  UnpoolGeometry(const Node& node, const TensorType& indices, const TensorType& y);
  // Cell of y for cell number `index` of all maps. Throws Error when there is no such cell; `i` is
  // the place of the index, for the message.
  int64_t place(int64_t index, int64_t i) const;

 private:
  int64_t planes_, map_cells_, y_cells_;
  std::vector<int64_t> map_, y_;
};

}  // namespace sardonyx::ops::max_unpool
