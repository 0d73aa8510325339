// What arithmetic.cu launches. Private to the room.
#pragma once

#include <cstdint>

#include "graph/type.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/core/cuda.h"
#include "ops/core/walk.h"

namespace sardonyx::ops::arithmetic {

// How many operands a kernel of any number of operands takes at once.
inline constexpr int kFoldOperands = 8;

enum class Fold : uint8_t { kSum, kMax, kMin };

struct Operands {
  const void* of[kFoldOperands] = {};
  int count = 0;
};

// float, double, bfloat16; kNeg, kAbs, kAdd, kSub, kMul and all folds int32 and int64 too.
void launch_unary(cuda::Stream stream, graph::DType dtype, Unary op, int64_t n, const void* x,
                  void* y);
void launch_binary(cuda::Stream stream, graph::DType dtype, Binary op, const cuda::Walk<2>& walk,
                   const void* a, const void* b, void* y);
// kPowGradBase, kPowGradExponent and kPReluGrad.
void launch_ternary(cuda::Stream stream, graph::DType dtype, Ternary op, const cuda::Walk<3>& walk,
                    const void* a, const void* b, const void* c, void* y);
// y = scale (x0 + x1 + ...), or the largest or the smallest of them; of two or of up to eight.
void launch_pair(cuda::Stream stream, graph::DType dtype, Fold fold, double scale,
                 const cuda::Walk<2>& walk, const void* a, const void* b, void* y);
void launch_fold(cuda::Stream stream, graph::DType dtype, Fold fold, double scale,
                 const cuda::Walk<kFoldOperands>& walk, const Operands& x, void* y);
// Operands dy, x and the others.
void launch_extremum_gradient(cuda::Stream stream, graph::DType dtype, Fold fold,
                              const cuda::Walk<kFoldOperands>& walk, const Operands& operands,
                              void* dx);

}  // namespace sardonyx::ops::arithmetic
