// What sums over replicas launch: the sum of a slice of several replicas' memory on one device, and
// floats that travel as bfloat16 between devices.
#pragma once

#include <array>
#include <cstddef>

#include "graph/type.h"
#include "ops/core/cuda.h"

namespace sardonyx::runtime {

inline constexpr int kMostOnOneDevice = 16;

struct SharedSum {
  std::array<void*, kMostOnOneDevice> data = {};  // device memory, one per rank
  int ranks = 0;
  graph::DType dtype = graph::DType::kFloat32;
  graph::DType wire = graph::DType::kFloat32;  // or kBFloat16
  size_t begin = 0, end = 0;                   // elements
};

// data[r][i] = sum over ranks of data[.][i], added in rank order, for the elements of the slice and
// all r. With a wire of bfloat16 the terms and the result are rounded to it, as LocalGroup does.
void launch_shared_sum(ops::cuda::Stream stream, const SharedSum& sum);

// Rounds floats to bfloat16 in half of their memory, from its begin: `packed_count` of them, in an
// order that depends on `count` alone; and back.
inline size_t packed_count(size_t count) { return (count + 1) / 2 * 2; }
void launch_pack(ops::cuda::Stream stream, void* data, size_t count);
void launch_unpack(ops::cuda::Stream stream, void* data, size_t count);

}  // namespace sardonyx::runtime
