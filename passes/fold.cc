#include "passes/fold.h"

#include <algorithm>

#include "graph/support/error.h"
#include "ops/core/gradient_flow.h"
#include "ops/core/infer.h"
#include "ops/core/kernel.h"
#include "passes/node_facts.h"

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

template <class Predicate>
bool all_inputs(const Node& node, Predicate&& predicate) {
  return std::all_of(node.inputs().begin(), node.inputs().end(),
                     [&](const Value* value) { return value == nullptr || predicate(*value); });
}

}  // namespace

// Whoever reads such a value does so at an input without a gradient, which isn't the place of a
// statistic, or gives nothing but such values.
Folder::Folder(graph::Graph& graph) : graph_(graph) {
  const auto& nodes = graph.nodes();
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    for (const Value* value : node->outputs()) {
      if (value == nullptr || value->uses().empty() || graph.is_output(value)) continue;
      const bool steers = std::ranges::all_of(value->uses(), [&](const graph::Use& use) {
        const ops::OpDef* op = ops::OpRegistry::get().find(*use.node);
        const ops::Port* port = op == nullptr ? nullptr : ops::port_of(*op, use.index);
        const bool ends = port != nullptr && !port->no_gradient.empty() &&
                          slot_of(use) == ops::ParameterSlot::kNone;
        return ends || gives_none(*use.node);
      });
      if (steers) without_gradient_.insert(value->name);
    }
  }
}

bool Folder::gives_none(const Node& node) const {
  return std::ranges::all_of(node.outputs(), [&](const Value* value) {
    return value == nullptr || without_gradient_.contains(value->name);
  });
}

bool Folder::fold_shape_arithmetic(Node& node) {
  if (!is_pure(node)) return false;
  const bool steers = gives_none(node);
  const bool constant = reads_only_shapes(node) || all_inputs(node, [&](const Value& value) {
                          return value.is_constant() && (steers || !may_be_parameter(value));
                        });
  if (!constant || !affords(node)) return false;
  evaluate(node);
  return true;
}

bool Folder::fold(Node& node) {
  if (!is_pure(node)) return false;
  const bool constant = reads_only_shapes(node) ||
                        all_inputs(node, [](const Value& value) { return value.is_constant(); });
  if (!constant || !affords(node)) return false;
  evaluate(node);
  return true;
}

// Counts what it grants.
bool Folder::affords(const Node& node) {
  size_t bytes = 0;
  bool wanted = false;
  for (const Value* value : node.outputs()) {
    if (value == nullptr) continue;
    wanted = true;
    if (!value->type.is_static() || value->type.numel() > kMaxFoldedElements) return false;
    bytes += value->type.bytes();
  }
  if (!wanted) return false;
  const ops::OpDef& op = ops::OpRegistry::get().at(node);
  const double flops = op.flops ? op.flops(ops::KernelRequest::of(node)) : 0.0;
  if (bytes > bytes_left_ || flops > flops_left_) return false;
  bytes_left_ -= bytes;
  flops_left_ -= flops;
  return true;
}

void Folder::evaluate(Node& node) {
  std::vector<graph::Tensor> inputs;
  for (const Value* value : node.inputs()) {
    inputs.push_back(value != nullptr && value->is_constant() ? value->data : graph::Tensor());
  }
  std::vector<graph::Tensor> outputs = with_context([&] { return "folding node " + node.label(); },
                                                    [&] { return ops::evaluate(node, inputs); });
  for (int slot = 0; slot < node.num_outputs(); ++slot) {
    if (node.output(slot) != nullptr) {
      replace_by_constant(graph_, node, slot, std::move(outputs[slot]));
    }
  }
  graph_.remove(&node);
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
