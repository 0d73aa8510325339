// eliminate_common: of two equal pure nodes (operator, attributes, inputs) the later one goes.
// Equal small constants count as equal inputs; states and origins of constants that may be saved
// are left alone.
#include <map>

#include "graph/print.h"
#include "ops/core/op.h"
#include "passes/pass.h"

namespace sardonyx::passes {

namespace {

using graph::Graph;
using graph::Node;
using graph::Value;

constexpr int64_t kSmall = 64;

// What a value is, for comparison: small generated constants by content, everything else by
// identity.
std::string identity(const Value* value) {
  if (value == nullptr) return "-";
  const bool generated = value->origin.kind == graph::Origin::Kind::kNone;
  if (value->is_constant() && generated && value->data.numel() <= kSmall &&
      value->data.dtype() != graph::DType::kString) {
    const auto bytes = value->data.bytes();
    return value->type.str() +
           std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return fmt::format("{}", static_cast<const void*>(value));
}

std::string key_of(const Node& node) {
  std::string key = node.domain + "::" + node.op;
  for (const auto& [name, attribute] : node.attributes) {
    key += "|" + name + "=" + graph::print(attribute);
  }
  for (const Value* value : node.inputs()) key += "(" + identity(value);
  for (const Value* value : node.outputs()) key += value == nullptr ? ")" : ")" + value->type.str();
  return key;
}

bool mergeable(const Graph& graph, const Node& node) {
  const ops::OpDef* op = ops::OpRegistry::get().find(node);
  if (op == nullptr || !op->pure || !ops::aliases_of(node).empty()) return false;
  for (const Value* value : node.outputs()) {
    if (value != nullptr && graph.is_output(value)) return false;
  }
  return true;
}

}  // namespace

bool eliminate_common(Graph& graph, PassContext& context) {
  std::map<std::string, Node*> seen;
  std::vector<Node*> nodes;
  for (Node& node : graph.nodes()) nodes.push_back(&node);
  bool changed = false;
  for (Node* node : nodes) {
    if (!mergeable(graph, *node)) continue;
    const auto [it, fresh] = seen.try_emplace(key_of(*node), node);
    if (fresh) continue;
    for (int slot = 0; slot < node->num_outputs(); ++slot) {
      Value* value = node->output(slot);
      if (value == nullptr) continue;
      Value* kept = it->second->output(slot);
      for (auto& [parameter, gradient] : context.gradients) {
        if (gradient == value->name) gradient = kept->name;
      }
      graph.replace_uses(value, kept);
    }
    graph.remove(node);
    changed = true;
  }
  return changed;
}

}  // namespace sardonyx::passes
