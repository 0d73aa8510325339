// The update as the flags say it: optimizer, groups, clipping, averages.
#pragma once

#include "runtime/config.h"

namespace sardonyx::runtime {

// --lr, or the default of the optimizer: 0.01 for sgd, 0.001 for adam and adamw.
double learning_rate(const Flags& flags);
// --weight-decay, or the default of the optimizer: that of torch.optim, 0.01 for adamw and 0 else.
double weight_decay(const Flags& flags);
// Throws UsageError: values out of range, flags of another optimizer, contradictions.
passes::OptimizerOptions optimizer_options(const Flags& flags);

}  // namespace sardonyx::runtime
