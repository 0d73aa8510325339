// canonicalize: each room brings its accepted opset forms to the newest one. Unknown operators are
// left alone; infer_shapes lists them.
#include "ops/core/normalize.h"
#include "passes/pass.h"

namespace sardonyx::passes {

bool canonicalize(graph::Graph& graph, PassContext&) {
  // Nodes that a rule writes are canonical already: only the file's own nodes are visited.
  std::vector<graph::Node*> nodes;
  for (graph::Node& node : graph.nodes()) nodes.push_back(&node);
  for (graph::Node* node : nodes) {
    if (node->domain == "ai.onnx") node->domain.clear();
    const ops::OpDef* op = ops::OpRegistry::get().find(*node);
    if (op == nullptr || !op->normalize) continue;
    const auto opset = graph.opsets.find(node->domain);
    ops::NormalizeContext context(*node, opset == graph.opsets.end() ? 1 : opset->second);
    with_context([&] { return "reading node " + node->label(); }, [&] { op->normalize(context); });
  }
  return !nodes.empty();
}

}  // namespace sardonyx::passes
