// What a Compress is written as. Private to ops/nonzero.
#pragma once

#include "ops/core/composed.h"

namespace sardonyx::ops::nonzero {

void write_compress(ComposeContext& context);

}  // namespace sardonyx::ops::nonzero
