// What the kernels of all devices read from the nodes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ops/core/kernel.h"

namespace sardonyx::ops {

// Fills output 0 with the members: `zero(to, bytes)` for what lies between them, and
// `copy(to, from, bytes)` for those that weren't written in place.
template <class Zero, class Copy>
void fill_bucket(const KernelRequest& request, RunContext& context, const Zero& zero,
                 const Copy& copy) {
  const std::vector<int64_t> offsets = request.node->get_ints("offsets", {});
  const size_t size = graph::dtype_size(request.out[0].dtype);
  auto* flat = context.out<std::byte>(0);
  size_t end = 0;
  for (size_t i = 0; i < offsets.size(); ++i) {
    const auto* from = context.in<std::byte>(static_cast<int>(i));
    const size_t begin = static_cast<size_t>(offsets[i]) * size, bytes = request.in[i].bytes();
    if (begin > end) zero(flat + end, begin - end);
    if (from != flat + begin && bytes > 0) copy(flat + begin, from, bytes);
    end = begin + bytes;
  }
}

// What the terms of a sum are rounded to before they are added.
inline DType wire_of(const KernelRequest& request) {
  const bool half = request.node->get_string("wire", "") == "bfloat16";
  return half ? DType::kBFloat16 : request.out[0].dtype;
}

}  // namespace sardonyx::ops
