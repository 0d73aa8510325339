#include "passes/hand_over.h"

#include "graph/names.h"

namespace sardonyx::passes {

using graph::Value;

void hand_over(graph::Node& node, int slot, Value* inner, MadeBy made_by) {
  graph::Graph& graph = *node.graph();
  Value* output = node.output(slot);
  const std::string name = output->name;
  const graph::Origin origin = output->origin;
  bool rename = made_by == MadeBy::kBody && !graph.is_output(inner);
  if (!rename && graph.is_output(output)) {
    const graph::Node* identity =
        graph.add_node("", "Identity", {inner}, {graph::fresh_name(graph, name)}, &node);
    identity->output(0)->type = inner->type;
    inner = identity->output(0);
    rename = true;
  }
  graph.replace_uses(output, inner);
  graph.drop_output_value(&node, slot);
  if (!rename) return;
  graph.rename(inner, name);
  // The weight of a Constant node stays where it stands in the file.
  if (inner->origin.kind != graph::Origin::Kind::kConstantNode) inner->origin = origin;
}

}  // namespace sardonyx::passes
