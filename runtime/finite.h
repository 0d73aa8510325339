// Whether floating values are finite; other types always are.
#pragma once

#include "graph/type.h"

namespace sardonyx::runtime {

bool all_finite(const void* data, const graph::TensorType& type);

}  // namespace sardonyx::runtime
