// What values are computed from.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace sardonyx::graph {

// All values that `values` are computed from, themselves included, each once; what comes through a
// node's last input first.
std::vector<const Value*> values_behind(const std::vector<const Value*>& values);

}  // namespace sardonyx::graph
