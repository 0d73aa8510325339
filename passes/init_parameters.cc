// init_parameters: with --init, gives values to the weights that the file has none for (inputs that
// the session made constants), with --reinit to everything that is trained and to the statistics of
// trained normalisations.
//
// A weight by the kind that was asked for, over the operands that its operator sums; biases 0,
// scales and variances 1, means 0, slopes 0.25. What fills no slot: a vector 0 where it is added
// and 1 where it multiplies, anything else (a class token, positions) N(0, 0.02^2), or the STD of
// normal:STD. A value depends on the seed and the name of its tensor, so that every plan has the
// same.
#include <algorithm>
#include <cmath>

#include "ops/core/kernel.h"
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

// Products that are summed in one result; 0: the operator has none.
double summed_by(const Node& node) {
  const ops::OpDef& op = ops::OpRegistry::get().at(node);
  if (!op.flops || node.output(0)->type.numel() == 0) return 0;
  return op.flops(ops::KernelRequest::of(node)) /
         (2.0 * static_cast<double>(node.output(0)->type.numel()));
}

graph::Fan fan_in_use(const Value& value, const Use& use) {
  const std::vector<int64_t> shape = value.type.shape();
  if (shape.size() < 2) return {1, 1};
  const auto size = [&](size_t axis) { return static_cast<double>(shape[axis]); };
  const bool product = slot_of({use.node, 0}) == ParameterSlot::kWeight &&
                       slot_of({use.node, 1}) == ParameterSlot::kWeight;
  if (product && shape.size() > 2) return {size(shape.size() - 2), size(shape.size() - 1)};
  if (product && std::abs(summed_by(*use.node) - size(0)) < 0.5) return {size(0), size(1)};
  return graph::fan_of(shape);
}

bool is_norm(const Node& node) {
  const ops::OpDef& op = ops::OpRegistry::get().at(node);
  return std::ranges::any_of(op.attributes, [](const ops::AttributeDef& attribute) {
    return attribute.name == "epsilon";
  });
}

// Statistics come as mean and variance.
bool is_second_statistic(const Use& use) {
  return use.index > 0 && slot_of({use.node, use.index - 1}) == ParameterSlot::kStatistic;
}

Tensor bias_of(const graph::Init& init, const Value& value, const Use& use) {
  const int64_t size = value.type.numel();
  const bool layer = use.node != nullptr && slot_of(use) == ParameterSlot::kBias;
  const double summed = layer ? summed_by(*use.node) : 0;
  if (init.kind != graph::Init::Kind::kPytorch || summed < 1) {
    return filled(value.type.shape(), 0);
  }
  return graph::init_bias(init, value.name, size, std::llround(summed))
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
      return filled(value.type.shape(), is_norm(*use.node) ? 1 : kSlope);
    case ParameterSlot::kStatistic:
      return filled(value.type.shape(), is_second_statistic(use) ? 1 : 0);
    case ParameterSlot::kWeight:
      return graph::init_weight(init, value.name, value.type.shape(), fan_in_use(value, use));
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
