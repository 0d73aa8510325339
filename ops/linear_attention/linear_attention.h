// The nodes that linear attention stands for. Private to ops/linear_attention.
#pragma once

#include "ops/core/composed.h"

namespace sardonyx::ops {

void write_linear_attention(ComposeContext& context);

}  // namespace sardonyx::ops
