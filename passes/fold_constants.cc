// fold_constants: what depends on constants only is computed once. Runs when parameters are states
// already, so a weight behind a Transpose stays trainable. What fails is a fault only where the
// result is needed.
#include "passes/fold.h"
#include "passes/pass.h"

namespace sardonyx::passes {

bool fold_constants(graph::Graph& graph, PassContext& context) {
  std::vector<graph::Node*> nodes;
  for (graph::Node& node : graph.nodes()) nodes.push_back(&node);
  Folder folder(graph);
  bool changed = false;
  for (graph::Node* node : nodes) {
    context.collect_fault(*node, [&] { changed |= folder.fold(*node); });
  }
  return changed;
}

}  // namespace sardonyx::passes
