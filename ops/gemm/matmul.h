// MatMul's definition, registered by gemm.cc, and what Gemm shares with it.
#pragma once

#include "ops/core/op.h"

namespace sardonyx::ops::gemm {

OpDef matmul_op();

// Of a weight at input `slot` whose last two axes are what a result sums and the results, or
// (`summed_last`) the other way round. A vector is summed.
graph::Fan product_fan(const Node& node, int slot, bool summed_last);

}  // namespace sardonyx::ops::gemm
