#include "ops/core/infer.h"

namespace sardonyx::ops {

namespace {

std::string port_name(const Node& node, int i) {
  const OpDef* op = OpRegistry::get().find(node);
  if (op == nullptr || op->inputs.empty()) return "";
  const size_t last = op->inputs.size() - 1;
  return " (" + op->inputs[std::min<size_t>(i, last)].name + ")";
}

}  // namespace

const TensorType& InferContext::type(int i) const {
  const Value* value = node_.input(i);
  if (value == nullptr) throw Error("input {}{} is required", i, port_name(node_, i));
  return value->type;
}

const Tensor* InferContext::constant(int i) const {
  const Value* value = node_.input(i);
  return value != nullptr && value->is_constant() ? &value->data : nullptr;
}

std::vector<int64_t> InferContext::ints(int i) const {
  const Tensor* tensor = constant(i);
  if (tensor == nullptr) {
    const Value* value = node_.input(i);
    throw Error(
        "input {}{} '{}' must be known before training starts, but it is computed from data; "
        "export the model with a fixed shape there",
        i, port_name(node_, i), value == nullptr ? "" : value->name);
  }
  return tensor->to_ints();
}

void InferContext::set(int output, TensorType type) {
  if (Value* value = node_.output(output)) value->type = std::move(type);
}

void infer_node(Node& node) {
  with_context([&] { return "inferring shapes of node " + node.label(); },
               [&] {
                 InferContext context(node);
                 OpRegistry::get().at(node).infer(context);
               });
}

}  // namespace sardonyx::ops
