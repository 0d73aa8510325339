// If whose condition is known before training: the graph gets the branch that is taken. No pass of
// its own: a condition is often shape arithmetic, so infer_shapes asks as soon as it is folded.
#pragma once

#include <string>
#include <vector>

#include "passes/pass.h"

namespace sardonyx::passes {

// Whether inline_functions has prepared the node for the functions below.
bool is_branching(const graph::Node& node);
// An If whose condition is a constant.
bool branch_is_known(const graph::Node& node);

// Replaces the node by the nodes of the branch that is taken, brought into the form that passes
// before infer_shapes give the rest of the graph, and returns them in order. Values are named
// "IF/then_branch/INNER", so that their origins lead saving into the branch; the other branch may
// hold anything. Throws Error and leaves the node in place when the branch can't be read.
std::vector<graph::Node*> take_branch(graph::Graph& graph, PassContext& context, graph::Node& node);

// Why the condition isn't known, and what to do.
std::string open_condition(const graph::Node& node);

}  // namespace sardonyx::passes
