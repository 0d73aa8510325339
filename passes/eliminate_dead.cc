// eliminate_dead: nodes that reach no output and no binding go, and values nobody uses with them.
// Inputs stay (the caller feeds them), and so do states.
#include <unordered_set>

#include "passes/pass.h"

namespace sardonyx::passes {

bool eliminate_dead(graph::Graph& graph, PassContext&) {
  std::unordered_set<const graph::Value*> kept(graph.outputs().begin(), graph.outputs().end());
  for (const graph::Binding& binding : graph.bindings()) kept.insert(binding.next);
  std::vector<graph::Node*> nodes;
  for (graph::Node& node : graph.nodes()) nodes.push_back(&node);
  bool changed = false;
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
    bool alive = false;
    for (int slot = 0; slot < (*it)->num_outputs(); ++slot) {
      const graph::Value* value = (*it)->output(slot);
      if (value == nullptr) continue;
      if (kept.contains(value) || !value->uses().empty()) alive = true;
    }
    if (alive) continue;
    graph.remove(*it);
    changed = true;
  }
  std::vector<graph::Value*> unused;
  for (graph::Value& value : graph.values()) {
    if (value.is_constant() && value.uses().empty() && !kept.contains(&value)) {
      unused.push_back(&value);
    }
  }
  for (graph::Value* value : unused) graph.remove(value);
  return changed || !unused.empty();
}

}  // namespace sardonyx::passes
