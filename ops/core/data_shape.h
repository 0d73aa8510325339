// Outputs whose size the elements of an input decide (NonZero, Compress, Unique,
// NonMaxSuppression).
//
// Plans have static shapes: such an input must be known when a plan is made. It is a constant, or
// becomes one by folding as soon as the batch is bound; what comes from samples is refused with
// what to do instead. A parameter has its first values then, so kernels look again.
#pragma once

#include "ops/core/infer.h"
#include "ops/core/kernel.h"

namespace sardonyx::ops {

// The elements of input i, which is there; nullptr while they may still become known. Throws Error
// when nothing can make them known.
const Tensor* shaping_data(const InferContext& context, int i);

// For kernels. Throws Error when the elements ask for another size than they did in the plan.
void require_planned_size(const KernelRequest& request, int64_t found, int64_t planned);

}  // namespace sardonyx::ops
