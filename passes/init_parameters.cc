// init_parameters: with --init, gives values to the weights that the file has none for (inputs that
// the session made constants), with --reinit to everything that is trained and to the statistics of
// trained normalisations.
//
// A weight by the kind that was asked for, over the operands that its operator sums (OpDef::fan);
// biases 0, scales and variances 1, means 0, slopes 0.25. What fills no slot: a vector 0 where it
// is added and 1 where it multiplies, anything else (a class token, positions) N(0, 0.02^2), or the
// STD of normal:STD. A value depends on the seed and the name of its tensor, so that every plan has
// the same.
#include <algorithm>
#include <cmath>
#include <optional>

#include "ops/core/op.h"
#include "passes/node_facts.h"
#include "passes/pass.h"
#include "passes/weight_inputs.h"

namespace sardonyx::passes {

namespace {

using graph::Node;
using graph::Tensor;
using graph::Use;
using graph::Value;
using ops::ParameterSlot;
using Role = ParameterRow::Role;

constexpr double kTokenStd = 0.02;
constexpr double kSlope = 0.25;

Tensor filled(const std::vector<int64_t>& shape, double number) {
  Tensor tensor(graph::DType::kFloat32, shape);
  std::ranges::fill(tensor.mutable_data<float>(), static_cast<float>(number));
  return tensor;
}

// Whether the operator can say what it joins: it was inferred, its parameters have known sizes.
bool is_typed(Node& node) {
  for (int i = 0; i < node.num_inputs(); ++i) {
    const bool open = node.input(i) != nullptr && !node.input(i)->type.is_static();
    if (open && slot_of({&node, i}) != ParameterSlot::kNone) return false;
  }
  return std::ranges::none_of(node.outputs(), [](const Value* value) {
    return value != nullptr && value->type.dtype == graph::DType::kUndefined;
  });
}

// Nothing where the operator sums nothing, or can't say what.
std::optional<graph::Fan> fan_of_layer(const Use& use) {
  const ops::OpDef& op = ops::OpRegistry::get().at(*use.node);
  if (!op.fan || !is_typed(*use.node)) return std::nullopt;
  return op.fan(*use.node, use.index);
}

// Of the weight whose layer this bias belongs to: its own operator's, or the product's in front.
std::optional<graph::Fan> fan_of_bias(const Value& value, const Use& use) {
  if (use.node != nullptr) return fan_of_layer(use);
  if (value.uses().empty()) return std::nullopt;
  const Use& first = value.uses().front();
  const ops::OpDef* op = ops::OpRegistry::get().find(*first.node);
  if (op != nullptr && op->view) return fan_of_bias(*first.node->output(0), use);
  Node* product = product_added_to(first);
  return product == nullptr ? std::nullopt : fan_of_layer({product, 1});
}

// Statistics come as mean and variance.
bool is_second_statistic(const Use& use) {
  return use.index > 0 && slot_of({use.node, use.index - 1}) == ParameterSlot::kStatistic;
}

Tensor bias_of(const graph::Init& init, const Value& value, const Use& use) {
  const graph::Fan fan = fan_of_bias(value, use).value_or(graph::Fan{0});
  if (fan.torch_in() < 1) return filled(value.type.shape(), 0);
  return graph::init_bias(init, value.name, value.type.numel(), std::llround(fan.torch_in()))
      .reshaped(value.type.shape());
}

Tensor without_slot(const graph::Init& init, const Value& value) {
  const std::vector<int64_t> shape = value.type.shape();
  const auto several = std::ranges::count_if(shape, [](int64_t size) { return size > 1; });
  if (several > 1) {
    const bool given = init.kind == graph::Init::Kind::kNormal;
    return graph::init_normal(init, value.name, shape, given ? init.std : kTokenStd);
  }
  const ops::OpDef* op =
      value.uses().empty() ? nullptr : ops::OpRegistry::get().find(*value.uses().front().node);
  return filled(shape, op != nullptr && op->adds ? 0 : 1);
}

Tensor initial(const graph::Init& init, const Value& value, const ParameterRow& row) {
  const Use use = defining_use(value);
  if (row.part.bias) return bias_of(init, value, use);
  if (use.node == nullptr) return without_slot(init, value);
  switch (slot_of(use)) {
    case ParameterSlot::kBias:
      return bias_of(init, value, use);
    case ParameterSlot::kScale:
      return filled(value.type.shape(), 1);
    case ParameterSlot::kSlope:
      return filled(value.type.shape(), kSlope);
    case ParameterSlot::kStatistic:
      return filled(value.type.shape(), is_second_statistic(use) ? 1 : 0);
    case ParameterSlot::kWeight:
      return graph::init_weight(init, value.name, value.type.shape(),
                                fan_of_layer(use).value_or(graph::fan_of(value.type.shape())));
    case ParameterSlot::kNone:
      break;
  }
  return without_slot(init, value);
}

// Of a normalisation whose scale or bias is trained.
bool moves_with_training(const Value& statistic) {
  return std::ranges::any_of(statistic.uses(), [](const Use& use) {
    return std::ranges::any_of(use.node->inputs(), [](const Value* value) {
      return value != nullptr && value->role == graph::StateRole::kParameter;
    });
  });
}

bool is_replaced(const Value& value, Role role) {
  return role == Role::kTrainable || (role == Role::kState && moves_with_training(value));
}

}  // namespace

bool init_parameters(graph::Graph& graph, PassContext& context) {
  const InitOptions& options = context.options.init;
  if (!options.how) return false;
  for (const ParameterRow& row : context.parameters) {
    Value* value = graph.find(row.name);
    const bool missing = row.origin.kind == graph::Origin::Kind::kGraphInput;
    if (!missing && !(options.all && is_replaced(*value, row.role))) continue;
    value->data = initial(*options.how, *value, row).cast(value->type.dtype);
    // So that a saved file has it.
    if (value->is_constant()) graph.make_state(value, graph::StateRole::kStatistic);
  }
  return true;
}

}  // namespace sardonyx::passes
