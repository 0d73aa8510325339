// The update as the flags say it: optimizer, groups, clipping, averages.
#pragma once

#include "runtime/config.h"

namespace sardonyx::runtime {

// --lr, or the default of the optimizer.
double learning_rate(const Flags& flags);
// --weight-decay, or the default of the optimizer: 0.01 for adamw and lamb, else 0.
double weight_decay(const Flags& flags);
// Throws UsageError: values out of range, flags of another optimizer, contradictions.
passes::OptimizerOptions optimizer_options(const Flags& flags);

}  // namespace sardonyx::runtime
