#include "ops/core/rows_apart.h"

#include <algorithm>

#include "ops/core/axis_order.h"

namespace sardonyx::ops {

namespace {

int64_t axis_from_front(const Node& node, int64_t otherwise) {
  const int64_t axis = node.get_int("axis", otherwise);
  return axis < 0 ? axis + node.input(0)->type.rank() : axis;
}

}  // namespace

bool rows_stand_along(int axis, const std::vector<int>& axes) {
  return std::ranges::all_of(axes, [axis](int a) { return a < 0 || a == axis; });
}

BatchRole role_in_front(Node& node, const std::vector<int>& axes, int slot) {
  const OpDef& op = OpRegistry::get().at(node);
  if (!op.batch) return BatchRole::kCouples;
  std::vector<std::pair<Value*, std::string>> before;
  const auto name_rows = [&](Value* value) {
    if (value == nullptr || !value->type.ranked || value->type.dims.empty()) return;
    std::string& symbol = value->type.dims[0].symbol;
    before.emplace_back(value, symbol);
    symbol = node.graph()->batch_symbol;
  };
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] == 0) name_rows(node.input(static_cast<int>(i)));
  }
  for (Value* value : node.outputs()) name_rows(value);
  const BatchRole role = op.batch(node, slot);
  // Backwards: a value that is there twice gets its own symbol back last.
  for (auto it = before.rbegin(); it != before.rend(); ++it) {
    it->first->type.dims[0].symbol = it->second;
  }
  return role;
}

bool keeps_rows_apart(Node& node, const std::vector<int>& axes) {
  const auto none_is = [&](int64_t axis) { return std::ranges::count(axes, axis) == 0; };
  if (axis_use(node) == AxisUse::kElementwise || permutation_of(node)) return true;
  if (axis_use(node) == AxisUse::kAxis) return none_is(axis_from_front(node, 0));
  const OpDef& op = OpRegistry::get().at(node);
  if (op.keeps_rows_apart) return op.keeps_rows_apart(node, axes);
  if (op.class_output != ClassOutput::kNone) {
    const int64_t first = axis_from_front(node, -1);
    return node.get_int("flatten", 0) != 0 ? axes[0] < first : axes[0] != first;
  }
  if (!rows_stand_along(0, axes)) return false;
  for (int i = 0; i < node.num_outputs(); ++i) {
    if (node.output(i) != nullptr && role_in_front(node, axes, i) != BatchRole::kRows) return false;
  }
  return true;
}

}  // namespace sardonyx::ops
