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
  LoopNest nest{request.out_shape(0), {}};
  for (int i = first; i <= last; ++i) {
    std::vector<int64_t> dims;
    for (const Dim& dim :
         aligned_dims(*request.node, i, request.in[i].dims, static_cast<int>(nest.sizes.size()))) {
      dims.push_back(dim.value);
    }
    std::vector<int64_t> strides = row_major(dims);
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      if (dims[axis] == 1) strides[axis] = 0;
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
