// apply_mode: the trainer's switch, not the file, decides what Dropout and BatchNormalization
// compute. Each room rewrites its own nodes (OpDef::apply_mode).
#include "graph/support/error.h"
#include "ops/core/mode.h"
#include "passes/pass.h"

namespace sardonyx::passes {

bool apply_mode(graph::Graph& graph, PassContext& context) {
  std::vector<graph::Node*> nodes;
  for (graph::Node& node : graph.nodes()) {
    const ops::OpDef* op = ops::OpRegistry::get().find(node);
    if (op != nullptr && op->apply_mode) nodes.push_back(&node);
  }
  for (graph::Node* node : nodes) {
    const ops::OpDef& op = ops::OpRegistry::get().at(*node);
    const auto dropout = context.options.dropout ? ops::ModeContext::Dropout::kActive
                                                 : ops::ModeContext::Dropout::kOff;
    ops::ModeContext mode(*node, context.options.mode == Mode::kTrain, dropout,
                          context.options.respect_training_mode);
    with_context([&] { return "applying the mode to node " + node->label(); },
                 [&] { op.apply_mode(mode); });
  }
  return !nodes.empty();
}

}  // namespace sardonyx::passes
