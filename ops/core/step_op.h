// Operators of the end of a step: sums over replicas, updates, counters. They stand behind the
// gradients, so they have none of their own.
#pragma once

#include "ops/core/op.h"

namespace sardonyx::ops {

// An operator of the sardonyx domain with nothing but its name, doc and the missing gradient.
OpDef step_op(const char* name, const char* doc);

}  // namespace sardonyx::ops
