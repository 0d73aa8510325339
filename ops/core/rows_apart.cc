#include "ops/core/rows_apart.h"

#include <algorithm>
#include <string_view>

#include "ops/core/axis_order.h"

namespace sardonyx::ops {

namespace {

// Names between spaces.
constexpr std::string_view kRecurrent = " GRU LSTM RNN ";

int64_t axis_from_front(const Node& node, int64_t otherwise) {
  const int64_t axis = node.get_int("axis", otherwise);
  return axis < 0 ? axis + node.input(0)->type.rank() : axis;
}

// Neither the columns of the left operand nor the rows of the right one, over which it adds up.
bool product_keeps_apart(const Node& node, const std::vector<int>& axes) {
  if (node.get_int("trans_a", 0) != 0 || node.get_int("trans_b", 0) != 0) return false;
  const int a_rank = node.input(0)->type.rank(), b_rank = node.input(1)->type.rank();
  return axes[0] != a_rank - 1 && (axes[1] < 0 || axes[1] != std::max(b_rank - 2, 0));
}

}  // namespace

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
  const auto all_are = [&](int axis) {
    return std::ranges::all_of(axes, [axis](int a) { return a < 0 || a == axis; });
  };
  if (axis_use(node) == AxisUse::kElementwise || permutation_of(node)) return true;
  if (axis_use(node) == AxisUse::kAxis) return none_is(axis_from_front(node, 0));
  if (node.is("", "MatMul")) return product_keeps_apart(node, axes);
  const OpDef& op = OpRegistry::get().at(node);
  if (op.class_output != ClassOutput::kNone) {
    const int64_t first = axis_from_front(node, -1);
    return node.get_int("flatten", 0) != 0 ? axes[0] < first : axes[0] != first;
  }
  if (node.domain.empty() && kRecurrent.find(" " + node.op + " ") != std::string_view::npos) {
    return all_are(node.get_int("layout", 0) == 0 ? 1 : 0);
  }
  if (!all_are(0)) return false;
  for (int i = 0; i < node.num_outputs(); ++i) {
    if (node.output(i) != nullptr && role_in_front(node, axes, i) != BatchRole::kRows) return false;
  }
  return true;
}

}  // namespace sardonyx::ops
