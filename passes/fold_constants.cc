// fold_constants: what depends on constants only is computed once. Runs when parameters are states
// already, so a weight behind a Transpose stays trainable.
#include "passes/fold.h"
#include "passes/pass.h"

namespace sardonyx::passes {

bool fold_constants(graph::Graph& graph, PassContext&) {
  std::vector<graph::Node*> nodes;
  for (graph::Node& node : graph.nodes()) nodes.push_back(&node);
  bool changed = false;
  for (graph::Node* node : nodes) {
    if (!folds(*node)) continue;
    fold_node(graph, *node);
    changed = true;
  }
  return changed;
}

}  // namespace sardonyx::passes
