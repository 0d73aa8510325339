// Graphviz text: nodes as boxes (gradient nodes and state in other colours), values as edges with
// their types.
#pragma once

#include <string>

#include "graph/graph.h"

namespace sardonyx::graph {

std::string to_dot(const Graph& graph);

}  // namespace sardonyx::graph
