// Checks the invariants of graph.h and the aliasing rule: nobody reads the old value after an
// aliasing write.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace sardonyx::graph {

// (output slot, input slot) pairs of a node whose output overwrites its input. ops/ provides it
// (ops::aliases_of); graph/ itself knows no operator.
using AliasQuery = std::function<std::vector<std::pair<int, int>>(const Node&)>;

// Throws Error that lists every violation found (up to 20), one per line.
void verify(const Graph& graph, const AliasQuery& aliases = {});

}  // namespace sardonyx::graph
