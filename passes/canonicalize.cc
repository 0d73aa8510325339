// canonicalize: each room brings its accepted opset forms to the newest one. Unknown operators are
// left alone; infer_shapes lists them. A node that a room refuses is left as it is and becomes a
// fault. A node without outputs, which nothing can read, goes.
#include <algorithm>

#include "ops/core/normalize.h"
#include "passes/node_opset.h"
#include "passes/pass.h"

namespace sardonyx::passes {

bool canonicalize(graph::Graph& graph, PassContext& context) {
  // Nodes that a rule writes are canonical already: only the file's own nodes are visited.
  std::vector<graph::Node*> nodes;
  for (graph::Node& node : graph.nodes()) nodes.push_back(&node);
  for (graph::Node* node : nodes) {
    if (std::ranges::all_of(node->outputs(), [](const auto* value) { return value == nullptr; })) {
      graph.remove(node);
      continue;
    }
    if (node->domain == "ai.onnx") node->domain.clear();
    const auto of_graph = graph.opsets.find(node->domain);
    const int64_t opset =
        node->get_int(kOpsetOfNode, of_graph == graph.opsets.end() ? 1 : of_graph->second);
    if (!node->has(kPathOfNode)) node->attributes.erase(kOpsetOfNode);
    context.collect_fault(*node, [&] {
      with_context([&] { return "reading node " + node->label(); },
                   [&] { ops::normalize_node(*node, opset); });
    });
  }
  return !nodes.empty();
}

}  // namespace sardonyx::passes
