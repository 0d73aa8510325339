// Constant folding, shared by infer_shapes (shape arithmetic on the way) and fold_constants
// (everything else).
#pragma once

#include <string>
#include <unordered_set>

#include "graph/graph.h"

namespace sardonyx::passes {

// Evaluates nodes with the reference kernels, puts constants in place of their outputs and removes
// them, up to limits of time and memory: what goes beyond is computed when the graph runs.
class Folder {
 public:
  explicit Folder(graph::Graph& graph);
  // Folds when all inputs are constants that can't be parameters (integers, floats that folding
  // itself made from integers or rank-0 floats, anything that only inputs without a gradient are
  // computed from, like the scales of Resize), or when the node reads only the shapes of its inputs
  // (Shape, Size) and they are known. Returns whether it did. Throws Error "... while folding node
  // ..." and leaves the node in place.
  bool fold_shape_arithmetic(graph::Node& node);
  // The same when all inputs are constants, whatever they are.
  bool fold(graph::Node& node);

 private:
  // No gradient can flow through any of its results.
  bool gives_none(const graph::Node& node) const;
  bool affords(const graph::Node& node);
  void evaluate(graph::Node& node);

  graph::Graph& graph_;
  // Names of values that nodes give and no gradient can flow through.
  std::unordered_set<std::string> without_gradient_;
  size_t bytes_left_ = size_t{1} << 28;
  double flops_left_ = 1e10;  // some ten seconds in plain loops
};
// Replaces one output by a constant of the same name and origin.
void replace_by_constant(graph::Graph& graph, graph::Node& node, int slot, graph::Tensor data);

}  // namespace sardonyx::passes
