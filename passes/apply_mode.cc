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
    // What has no type stands behind a node that can't be run.
    if (op == nullptr || !op->apply_mode || node.output(0) == nullptr) continue;
    if (node.output(0)->type.dtype != graph::DType::kUndefined) nodes.push_back(&node);
  }
  for (graph::Node* node : nodes) {
    const ops::OpDef& op = ops::OpRegistry::get().at(*node);
    const auto dropout = context.options.dropout ? ops::ModeContext::Dropout::kActive
                                                 : ops::ModeContext::Dropout::kOff;
    ops::ModeContext mode(*node, context.options.mode == Mode::kTrain, dropout,
                          context.options.respect_training_mode);
    context.collect_fault(*node, [&] {
      with_context([&] { return "applying the mode to node " + node->label(); },
                   [&] { op.apply_mode(mode); });
    });
  }
  return !nodes.empty();
}

}  // namespace sardonyx::passes
