// Constant folding, shared by infer_shapes (shape arithmetic on the way) and fold_constants
// (everything else).
#pragma once

#include "graph/graph.h"

namespace sardonyx::passes {

// All inputs are constants that can't be parameters (integers, or floats that folding itself made
// from integers or rank-0 floats), or the node reads only the shapes of its inputs (Shape, Size)
// and they are known.
bool folds_as_shape_arithmetic(const graph::Node& node);
// All inputs are constants.
bool folds(const graph::Node& node);
// Evaluates the node with the reference kernels and puts constants in place of its outputs. The
// node is removed.
void fold_node(graph::Graph& graph, graph::Node& node);
// Replaces one output by a constant of the same name and origin.
void replace_by_constant(graph::Graph& graph, graph::Node& node, int slot, graph::Tensor data);

}  // namespace sardonyx::passes
