// The nodes that a causal convolution stands for. Private to ops/causal_conv.
#pragma once

#include "ops/core/composed.h"

namespace sardonyx::ops {

void write_causal_conv(ComposeContext& context);

}  // namespace sardonyx::ops
