// What stands between gradients and the update (gradients.cc); registered by optimizer.cc.
#pragma once

#include "ops/core/op.h"

namespace sardonyx::ops::optimizer {

void register_gradients(OpRegistry& ops);

}  // namespace sardonyx::ops::optimizer
