#include "ops/core/cuda_walk.h"

#include <algorithm>
#include <limits>

#include "ops/core/broadcast.h"
#include "ops/core/strided.h"

namespace sardonyx::ops::cuda {

LoopNest LoopNest::merged() const {
  LoopNest result;
  result.strides.resize(strides.size());
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    if (sizes[axis] == 1) continue;
    bool joins = !result.sizes.empty();
    for (size_t k = 0; joins && k < strides.size(); ++k) {
      joins = result.strides[k].back() == strides[k][axis] * sizes[axis];
    }
    if (joins) {
      result.sizes.back() *= sizes[axis];
    } else {
      result.sizes.push_back(sizes[axis]);
    }
    for (size_t k = 0; k < strides.size(); ++k) {
      if (!joins) result.strides[k].emplace_back();
      result.strides[k].back() = strides[k][axis];
    }
  }
  return result;
}

LoopNest broadcast_nest(const KernelRequest& request, int first, int last) {
  const TensorType& y = request.out[0];
  LoopNest nest{stored_dims(y), {}};
  for (int i = first; i <= last; ++i) {
    const TensorType& x = request.in[i];
    const std::vector<int64_t> stored = row_major(stored_dims(x));
    std::vector<Dim> own;
    for (int axis = 0; axis < x.rank(); ++axis) own.emplace_back(stored[stored_axis(x, axis)]);
    const std::vector<Dim> sizes = aligned_dims(*request.node, i, x.dims, y.rank());
    const std::vector<Dim> steps = aligned_dims(*request.node, i, own, y.rank());
    std::vector<int64_t> strides(steps.size());
    for (int axis = 0; axis < y.rank(); ++axis) {
      strides[stored_axis(y, axis)] = sizes[axis].value == 1 ? 0 : steps[axis].value;
    }
    nest.strides.push_back(std::move(strides));
  }
  return nest;
}

Refusal beyond_broadcast_walk() {
  return {"knows up to 8 axes after neighbours were merged", [](const KernelRequest& request) {
            const int last = static_cast<int>(request.in.size()) - 1;
            return broadcast_nest(request, 0, last).merged().sizes.size() > kWalkAxes;
          }};
}

Refusal unless_full_operands_are_alike() {
  return {"takes operands of the shape of y in its layout only", [](const KernelRequest& request) {
            const TensorType& y = request.out[0];
            return std::any_of(request.in.begin(), request.in.end(), [&](const TensorType& x) {
              return x.ranked && x.shape() == y.shape() && !(x.layout == y.layout);
            });
          }};
}

void fill_axes(const LoopNest& merged, WalkAxes& axes, int64_t (*strides)[kWalkAxes]) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const size_t rank = merged.sizes.size();
  CHECK(rank <= kWalkAxes, "a walk of {} axes", rank);
  axes.axes = static_cast<int>(rank);
  for (size_t i = 0; i < rank; ++i) {
    axes.sizes[i] = merged.sizes[rank - 1 - i];
    axes.count *= axes.sizes[i];
  }
  axes.narrow = axes.count <= kMost;
  for (size_t k = 0; k < merged.strides.size(); ++k) {
    int64_t reach = 0;
    for (size_t i = 0; i < rank; ++i) {
      strides[k][i] = merged.strides[k][rank - 1 - i];
      reach += std::abs(strides[k][i]) * std::max<int64_t>(axes.sizes[i] - 1, 0);
    }
    axes.narrow = axes.narrow && reach <= kMost;
    axes.dense = axes.dense && (rank == 0 || (rank == 1 && strides[k][0] == 1));
  }
}

}  // namespace sardonyx::ops::cuda
