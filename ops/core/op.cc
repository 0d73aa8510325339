#include "ops/core/op.h"

#include "graph/names.h"
#include "graph/support/error.h"

namespace sardonyx::ops {

BatchRole rows(const Node&, int) { return BatchRole::kRows; }
BatchRole sums(const Node&, int) { return BatchRole::kSum; }

BatchRole rows_of_all(const Node& node, int) {
  for (const Value* value : node.inputs()) {
    if (value == nullptr || carries_batch(node, value)) continue;
    const TensorType& type = value->type;
    const bool no_rows = type.ranked && (type.dims.empty() || type.dims[0].value == 1);
    if (!no_rows) return BatchRole::kCouples;
  }
  return BatchRole::kRows;
}

graph::Fan fan_of_kernel(const Node& node, int) {
  return graph::fan_of(node.input(1)->type.shape());
}

bool carries_batch(const graph::Graph& graph, const Value* value) {
  return value != nullptr && !graph.batch_symbol.empty() && value->type.ranked &&
         !value->type.dims.empty() && value->type.dims[0].symbol == graph.batch_symbol;
}

bool carries_batch(const Node& node, const Value* value) {
  return carries_batch(*node.graph(), value);
}

std::string op_label(std::string_view domain, std::string_view name) {
  return domain.empty() ? std::string(name) : fmt::format("{}::{}", domain, name);
}

void OpRegistry::add(OpDef op) {
  CHECK(!op.name.empty() && !op.doc.empty(), "operator '{}' needs a name and a doc", op.name);
  CHECK(op.infer != nullptr, "operator '{}' needs a shape rule", op.name);
  CHECK(op.gradient.kind != Gradient::Kind::kMissing,
        "operator '{}' needs a gradient, a zero gradient or a reason", op.name);
  auto key = std::make_pair(op.domain, op.name);
  CHECK(!ops_.contains(key), "operator '{}' is registered twice", op.name);
  ops_.emplace(std::move(key), std::move(op));
}

const OpDef* OpRegistry::find(std::string_view domain, std::string_view name) const {
  const auto it = ops_.find(std::make_pair(std::string(domain), std::string(name)));
  return it == ops_.end() ? nullptr : &it->second;
}

const OpDef& OpRegistry::at(const Node& node) const {
  if (const OpDef* op = find(node)) return *op;
  std::vector<std::string> names;
  for (const auto& [key, op] : ops_) {
    if (key.first == node.domain) names.push_back(key.second);
  }
  std::string hint;
  for (const std::string& name : graph::misspelt(node.op, names)) {
    hint += (hint.empty() ? "; near names: " : ", ") + name;
  }
  throw Error("node {}: operator {} is not supported{}", node.label(),
              op_label(node.domain, node.op), hint);
}

std::vector<const OpDef*> OpRegistry::all() const {
  std::vector<const OpDef*> result;
  for (const auto& [key, op] : ops_) result.push_back(&op);
  return result;
}

std::vector<std::pair<int, int>> aliases_of(const Node& node) {
  const OpDef* op = OpRegistry::get().find(node);
  if (op == nullptr) return {};
  std::vector<std::pair<int, int>> result;
  if (op->aliases) result = op->aliases(node);
  if (op->accumulate_input >= 0 && node.input(op->accumulate_input) != nullptr) {
    result.emplace_back(0, op->accumulate_input);
  }
  return result;
}

std::vector<std::pair<int, int>> views_of(const Node& node) {
  const OpDef* op = OpRegistry::get().find(node);
  if (op == nullptr || !op->view) return {};
  return {{0, 0}};
}

}  // namespace sardonyx::ops
