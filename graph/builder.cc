#include "graph/builder.h"

#include "graph/names.h"
#include "graph/support/error.h"

namespace sardonyx::graph {

Value* Builder::op(const std::string& op, std::vector<Value*> inputs, Attributes attributes,
                   const std::string& name) {
  return node("", op, std::move(inputs), {name.empty() ? op : name}, std::move(attributes))
      ->output(0);
}

Node* Builder::node(const std::string& domain, const std::string& op, std::vector<Value*> inputs,
                    std::vector<std::string> output_wishes, Attributes attributes) {
  Node* node = graph_.add_node(domain, op, std::move(inputs), {}, before_);
  // One by one, so that two equal wishes of this node get two names.
  for (size_t i = 0; i < output_wishes.size(); ++i) {
    if (output_wishes[i].empty()) continue;
    graph_.add_output_value(node, static_cast<int>(i), fresh_name(graph_, output_wishes[i]));
  }
  node->attributes = std::move(attributes);
  return node;
}

Value* Builder::constant(const std::string& wish, Tensor data) {
  return graph_.add_constant(fresh_name(graph_, wish), std::move(data));
}

}  // namespace sardonyx::graph
