// The reverse walk, as a function: build_backward (training and gradient mode) and tests use it.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "ops/core/op.h"

namespace sardonyx::passes {

// Values from which a gradient path leads to one of `targets` (backward closure over
// ops::gradient_flows).
std::unordered_set<const graph::Value*> values_reaching(const graph::Graph& graph,
                                                        const std::vector<graph::Value*>& targets);

// Appends the nodes that compute d(sum seeds)/d(wrt). `seeds`: value and its gradient. Only nodes
// on a path from a wrt value to a seed are visited; several contributions to one value are joined
// by one Sum, in the order in which the reverse walk meets them. Values without a path are absent
// from the result. Throws Error listing every node on a path whose operator has no gradient, with
// its reason.
std::unordered_map<graph::Value*, graph::Value*> differentiate(
    graph::Graph& graph, const std::vector<std::pair<graph::Value*, graph::Value*>>& seeds,
    const std::vector<graph::Value*>& wrt);

}  // namespace sardonyx::passes
