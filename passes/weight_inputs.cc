#include "passes/weight_inputs.h"

#include <algorithm>

#include "passes/node_facts.h"

namespace sardonyx::passes {

using graph::Graph;
using graph::Use;
using graph::Value;
using ops::ParameterSlot;

namespace {

bool shows_operand(const graph::Node& node) {
  const ops::OpDef* op = ops::OpRegistry::get().find(node);
  return op != nullptr && node.output(0) != nullptr && (op->view || op->inputs.size() == 1);
}

// Both operands of a product may be weights; the first is the data.
bool fills_slot(const Use& use) {
  if (use.node == nullptr || slot_of(use) == ParameterSlot::kNone) return false;
  return use.index > 0 || slot_of({use.node, 1}) != ParameterSlot::kWeight;
}

bool may_be_weight(const Value& input) {
  return graph::is_floating(input.type.dtype) && input.type.is_static();
}

}  // namespace

Use defining_use(const Value& value) {
  for (const Use& use : value.uses()) {
    if (slot_of(use) != ParameterSlot::kNone) return use;
    if (use.index != 0 || !shows_operand(*use.node)) continue;
    const Use behind = defining_use(*use.node->output(0));
    if (behind.node != nullptr) return behind;
  }
  return {};
}

bool fills_parameter_slot(const Value& input) { return fills_slot(defining_use(input)); }

std::vector<Value*> weight_inputs(const Graph& graph) {
  if (graph.inputs().empty()) return {};
  const Value* data = graph.inputs()[0];
  const auto is_weight = [&](const Value* input) {
    return input != data && may_be_weight(*input) && fills_parameter_slot(*input);
  };
  if (std::ranges::none_of(graph.inputs(), is_weight)) return {};
  const bool has_batch = data->type.ranked && !data->type.dims.empty();
  const auto counts_rows = [&](const Value& input) {
    return has_batch && input.type.rank() > 0 && input.type.dims[0] == data->type.dims[0];
  };
  std::vector<Value*> weights;
  for (Value* input : graph.inputs()) {
    const bool other = input != data && may_be_weight(*input) && !counts_rows(*input);
    if (is_weight(input) || other) weights.push_back(input);
  }
  return weights;
}

}  // namespace sardonyx::passes
