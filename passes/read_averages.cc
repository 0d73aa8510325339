// read_averages: evaluation sees the averaged weights "ema/NAME" where training keeps them. They
// begin as the weights themselves.
#include "passes/pass.h"

namespace sardonyx::passes {

bool read_averages(graph::Graph& graph, PassContext& context) {
  if (context.options.optimizer.ema <= 0 || context.options.mode != Mode::kEval) return false;
  for (graph::Value* w : graph.states()) {
    if (w->role != graph::StateRole::kParameter) continue;
    graph.replace_uses(
        w, graph.add_state("ema/" + w->name, w->type, graph::StateRole::kOptimizer, w->data));
  }
  return true;
}

}  // namespace sardonyx::passes
