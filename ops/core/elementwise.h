// What rooms of element-by-element operators share: shape rule, refusals, cutting work into pieces.
#pragma once

#include "ops/core/infer.h"
#include "ops/core/kernel.h"

namespace sardonyx::ops {

// Elements per piece of a thread: below this, starting a thread costs more than it saves.
inline constexpr int64_t kCheapGrain = 16384;  // a few instructions each
inline constexpr int64_t kMathGrain = 2048;    // exp, pow, ...

// Output 0 has the type of input 0.
void infer_same(InferContext& context);
// Output 0 has the common shape of inputs first .. last, which must be equal (dimensions that are
// not known yet fit everything). `constraint`: number on the plate.
void infer_same_shapes(InferContext& context, int first, int last, const char* constraint);
// Throw ConstraintError: "input 0 is int64, expected a floating type", "input 0 is bool, expected
// numbers".
void require_floating(const InferContext& context, int input, const char* constraint);
void require_numbers(const InferContext& context, int input, const char* constraint);

}  // namespace sardonyx::ops
