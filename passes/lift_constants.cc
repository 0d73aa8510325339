// lift_constants: the tensor of a Constant node becomes a constant value of the same name and
// origin, so that weights look alike wherever the exporter put them.
#include "graph/support/error.h"
#include "ops/core/infer.h"
#include "ops/core/kernel.h"
#include "passes/fold.h"
#include "passes/pass.h"

namespace sardonyx::passes {

bool lift_constants(graph::Graph& graph, PassContext&) {
  std::vector<graph::Node*> constants;
  for (graph::Node& node : graph.nodes()) {
    const ops::OpDef* op = ops::OpRegistry::get().find(node);
    if (op != nullptr && op->literal && node.output(0) != nullptr) constants.push_back(&node);
  }
  for (graph::Node* node : constants) {
    with_context([&] { return "lifting " + node->label(); },
                 [&] {
                   ops::infer_node(*node);
                   graph::Tensor data;
                   if (const graph::Tensor* tensor = node->get_tensor("value")) {
                     data = *tensor;  // borrowed bytes stay borrowed
                   } else {
                     data = ops::evaluate(*node, {}).at(0);
                   }
                   replace_by_constant(graph, *node, 0, std::move(data));
                   graph.remove(node);
                 });
  }
  return !constants.empty();
}

}  // namespace sardonyx::passes
