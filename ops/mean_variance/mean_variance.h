// Private to ops/mean_variance.
#pragma once

#include <vector>

#include "ops/core/op.h"

namespace sardonyx::ops::mean_variance {

// As the node has them: negative ones count from the end.
std::vector<int64_t> axes_of(const Node& node);

}  // namespace sardonyx::ops::mean_variance
