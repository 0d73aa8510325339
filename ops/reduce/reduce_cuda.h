// What reduce.cu launches. Private to ops/reduce.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/type.h"
#include "ops/core/cuda.h"

namespace sardonyx::ops::reduce {

// Neighbouring axes of one kind, as one.
struct AxisGroup {
  int64_t size = 1, stride = 1;
};

// Element i of y is made of the elements at place(kept, i) + place(removed, j) of x.
struct Reduced {
  static constexpr int kMost = 4;
  AxisGroup kept[kMost], removed[kMost];  // the innermost one first
  int kept_groups = 0, removed_groups = 0;
  int64_t kept_count = 1, removed_count = 1;
};

enum class FoldBy : uint8_t { kSum, kMagnitudes, kSquares, kProduct, kMax, kMin, kLogSumExp };
enum class Then : uint8_t { kNothing, kMean, kRoot, kLog };
enum class Write : uint8_t { kOverwrite, kAdd };

size_t workspace_bytes(const Reduced& shape);
void launch_reduction(cuda::Stream stream, graph::DType dtype, const Reduced& shape, FoldBy fold,
                      Then then, const void* x, Write write, void* y, void* workspace);

// dx = dy / count for each of the `count` elements equal to y, else 0.
void launch_extremum_gradient(cuda::Stream stream, graph::DType dtype, const Reduced& shape,
                              const void* x, const void* y, const void* dy, void* dx);
// dx = dy times the product of the other elements.
void launch_product_gradient(cuda::Stream stream, graph::DType dtype, const Reduced& shape,
                             const void* x, const void* dy, void* dx);

}  // namespace sardonyx::ops::reduce
