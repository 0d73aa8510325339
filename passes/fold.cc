#include "passes/fold.h"

#include "graph/support/error.h"
#include "ops/core/infer.h"
#include "ops/core/kernel.h"

namespace sardonyx::passes {

namespace {

using graph::Node;
using graph::Value;

// Above this a folded constant costs more memory than computing it costs time.
constexpr int64_t kMaxFoldedElements = int64_t{1} << 22;

bool may_be_parameter(const Value& value) {
  return graph::is_floating(value.type.dtype) && value.type.rank() > 0 &&
         value.origin.kind != graph::Origin::Kind::kNone &&
         value.origin.kind != graph::Origin::Kind::kNodeOutput;
}

bool outputs_small(const Node& node) {
  for (const Value* value : node.outputs()) {
    if (value == nullptr) continue;
    if (!value->type.is_static() || value->type.numel() > kMaxFoldedElements) return false;
  }
  return true;
}

bool is_pure(const Node& node) {
  const ops::OpDef* op = ops::OpRegistry::get().find(node);
  return op != nullptr && op->pure;
}

bool reads_only_shapes(const Node& node) {
  const ops::OpDef* op = ops::OpRegistry::get().find(node);
  if (op == nullptr || !op->reads_only_shapes) return false;
  for (const Value* value : node.inputs()) {
    if (value != nullptr && !value->type.is_static()) return false;
  }
  return true;
}

}  // namespace

bool folds_as_shape_arithmetic(const Node& node) {
  if (!is_pure(node) || !outputs_small(node)) return false;
  if (reads_only_shapes(node)) return true;
  for (const Value* value : node.inputs()) {
    if (value != nullptr && (!value->is_constant() || may_be_parameter(*value))) return false;
  }
  return true;
}

bool folds(const Node& node) {
  if (!is_pure(node) || !outputs_small(node)) return false;
  if (reads_only_shapes(node)) return true;
  for (const Value* value : node.inputs()) {
    if (value != nullptr && !value->is_constant()) return false;
  }
  return true;
}

void fold_node(graph::Graph& graph, Node& node) {
  std::vector<graph::Tensor> inputs;
  for (const Value* value : node.inputs()) {
    inputs.push_back(value != nullptr && value->is_constant() ? value->data : graph::Tensor());
  }
  std::vector<graph::Tensor> outputs = with_context([&] { return "folding node " + node.label(); },
                                                    [&] { return ops::evaluate(node, inputs); });
  for (int slot = 0; slot < node.num_outputs(); ++slot) {
    if (node.output(slot) != nullptr) {
      replace_by_constant(graph, node, slot, std::move(outputs[slot]));
    }
  }
  graph.remove(&node);
}

void replace_by_constant(graph::Graph& graph, Node& node, int slot, graph::Tensor data) {
  Value* old = node.output(slot);
  const std::string name = old->name;
  const graph::Origin origin = old->origin;
  graph.rename(old, "folding " + name);
  Value* constant = graph.add_constant(name, std::move(data));
  constant->origin = origin;
  graph.replace_uses(old, constant);
  graph.drop_output_value(&node, slot);
}

}  // namespace sardonyx::passes
