// MatMul's definition, registered by gemm.cc.
#pragma once

#include "ops/core/op.h"

namespace sardonyx::ops::gemm {

OpDef matmul_op();

}  // namespace sardonyx::ops::gemm
