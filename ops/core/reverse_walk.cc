#include "ops/core/reverse_walk.h"

#include <algorithm>

#include "graph/support/error.h"
#include "ops/core/gradient.h"
#include "ops/core/gradient_flow.h"

namespace sardonyx::ops {

bool ReverseWalk::flows(const Node& node, int input) const {
  return active_.contains(node.input(input)) && gradient_flows(node, input);
}

bool ReverseWalk::is_active(const Node& node) const {
  for (int i = 0; i < node.num_inputs(); ++i) {
    if (flows(node, i)) return true;
  }
  return false;
}

void ReverseWalk::follow(const Node& node) {
  if (!is_active(node)) return;
  for (const Value* value : node.outputs()) {
    if (value != nullptr && graph::is_floating(value->type.dtype)) active_.insert(value);
  }
}

void ReverseWalk::visit(Node& node) {
  if (!is_active(node)) return;
  std::vector<Value*> dy;
  for (const Value* value : node.outputs()) dy.push_back(gradient(value));
  if (std::ranges::none_of(dy, [](const Value* value) { return value != nullptr; })) return;
  const OpDef& op = OpRegistry::get().at(node);
  CHECK(op.gradient.kind == Gradient::Kind::kRule, "{} has no gradient", node.label());
  std::vector<bool> wanted;
  for (int i = 0; i < node.num_inputs(); ++i) wanted.push_back(flows(node, i));
  begin_rule(node);
  GradientContext context(node, b_, std::move(dy), wanted);
  with_context([&] { return "building the gradient of node " + node.label(); },
               [&] { op.gradient.rule(context); });
  for (int i = 0; i < node.num_inputs(); ++i) {
    Value* dx = context.result()[i];
    CHECK(dx != nullptr || !wanted[i], "the gradient rule of {} leaves out input {}", node.label(),
          i);
    if (dx == nullptr) continue;
    take_part(node.input(i), dx, node);
    add(node.input(i), dx);
  }
}

Value* ReverseWalk::gradient(const Value* value) {
  const auto it = parts_.find(value);
  if (it == parts_.end()) return nullptr;
  std::vector<Value*>& parts = it->second;
  if (parts.size() > 1) parts = {sum_of(value, parts)};
  return parts[0];
}

}  // namespace sardonyx::ops
