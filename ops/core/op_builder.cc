#include "ops/core/op_builder.h"

#include "graph/names.h"
#include "ops/core/infer.h"

namespace sardonyx::ops {

Value* OpBuilder::op(const std::string& op, std::vector<Value*> inputs,
                     graph::Attributes attributes, const std::string& wish) {
  return node("", op, std::move(inputs), {wish.empty() ? op : wish}, std::move(attributes))
      ->output(0);
}

Value* OpBuilder::own(const std::string& op, std::vector<Value*> inputs,
                      graph::Attributes attributes, const std::string& wish) {
  return node(kDomain, op, std::move(inputs), {wish.empty() ? op : wish}, std::move(attributes))
      ->output(0);
}

Node* OpBuilder::node(const std::string& domain, const std::string& op, std::vector<Value*> inputs,
                      std::vector<std::string> wishes, graph::Attributes attributes) {
  while (!inputs.empty() && inputs.back() == nullptr) inputs.pop_back();
  // Fresh names are claimed one by one: two outputs may wish for the same name. Outputs left out
  // keep their slots, the last ones too: to a Split they count.
  const std::vector<std::string> left_out(wishes.size());
  Node* node = graph_.add_node(domain, op, std::move(inputs), left_out, before_);
  for (size_t slot = 0; slot < wishes.size(); ++slot) {
    if (wishes[slot].empty()) continue;
    graph_.add_output_value(node, static_cast<int>(slot),
                            graph::fresh_name(graph_, prefix_ + wishes[slot]));
  }
  node->attributes = std::move(attributes);
  node->forward_node = forward_node_;
  infer_node(*node);
  return node;
}

Value* OpBuilder::constant(Tensor data, const std::string& wish) {
  return graph_.add_constant(graph::fresh_name(graph_, prefix_ + wish), std::move(data));
}

Value* OpBuilder::ints(const std::vector<int64_t>& values) {
  return constant(Tensor::of<int64_t>({static_cast<int64_t>(values.size())}, values), "ints");
}

Value* OpBuilder::scalar(DType dtype, double value) {
  return constant(Tensor::scalar<double>(value).cast(dtype), "scalar");
}

Value* OpBuilder::filled_like(const Value* like, double value) {
  const Value* fill = scalar(like->type.dtype, value);
  return op("Expand", {const_cast<Value*>(fill), ints(like->type.shape())});
}

}  // namespace sardonyx::ops
