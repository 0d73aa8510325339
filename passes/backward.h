// The reverse walk, as a function: build_backward (training and gradient mode) and tests use it.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "ops/core/op.h"

namespace sardonyx::passes {

// True when a gradient can flow from the node's outputs to input `i`: both are floating point, the
// operator's gradient isn't zero by nature, and the input isn't declared non-differentiable.
// Operators without a gradient count as passable: that they can't be differentiated is an error,
// not the end of the path.
bool gradient_flows(const graph::Node& node, int i);

// Values from which a gradient path leads to one of `targets` (backward closure over
// gradient_flows).
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
