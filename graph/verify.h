// Checks the invariants of graph.h and the aliasing rule: nobody reads the old value, or a view of
// it, after an aliasing write.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace sardonyx::graph {

// (output slot, input slot) pairs of a node. graph/ itself knows no operator, so ops/ answers.
using AliasQuery = std::function<std::vector<std::pair<int, int>>(const Node&)>;

// Throws Error that lists every violation found (up to 20), one per line. `aliases`: the output
// overwrites the input (ops::aliases_of); `views`: it is the same bytes (ops::views_of).
void verify(const Graph& graph, const AliasQuery& aliases = {}, const AliasQuery& views = {});

}  // namespace sardonyx::graph
