#include "ops/core/gradient_flow.h"

#include <algorithm>

namespace sardonyx::ops {

namespace {

bool may_be_float(const Value* value) {
  if (value == nullptr) return false;
  const DType dtype = value->type.dtype;
  return dtype == DType::kUndefined || graph::is_floating(dtype);
}

}  // namespace

const Port* port_of(const OpDef& op, int input) {
  if (op.inputs.empty()) return nullptr;
  return &op.inputs[std::min<size_t>(input, op.inputs.size() - 1)];
}

bool gradient_flows(const Node& node, int input) {
  if (!may_be_float(node.input(input))) return false;
  const OpDef* op = OpRegistry::get().find(node);
  if (op == nullptr) return true;
  if (op->gradient.kind == Gradient::Kind::kZero) return false;
  const Port* port = port_of(*op, input);
  return (port == nullptr || port->no_gradient.empty()) &&
         std::ranges::any_of(node.outputs(), may_be_float);
}

}  // namespace sardonyx::ops
