// CumSum: y[.., i, ..] = sum of x[.., k, ..] over k <= i along one axis
//
// exclusive: k < i instead          reverse: from the end, k >= i (k > i)
// Inputs   x of any shape    axis int32 or int64, one element, constant      Output  y like x
// C1 -rank(x) <= axis < rank(x)    C2 numbers    C3 axis has one element
// Gradient CumSum of dy along the same axis the other way round; x and y are not read.
// Batch    rows, unless the sum runs over axis 0.
// Source   ONNX CumSum-14
#include "ops/core/axes.h"
#include "ops/core/elementwise.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"

namespace sardonyx::ops {

namespace {

// --- Shape

void infer_cum_sum(InferContext& c) {
  require_numbers(c, 0, "C2");
  const std::vector<int64_t> axis = c.ints(1);  // must be known
  c.require(axis.size() == 1, "C3", "axis has {} elements, expected one", axis.size());
  const int rank = c.rank(0);
  c.require(rank < 0 || (axis[0] >= -rank && axis[0] < rank), "C1",
            "axis {} is out of range for {} axes, expected {} to {}", axis[0], rank, -rank,
            rank - 1);
  c.set(0, c.type(0));
}

// --- Gradient

void cum_sum_gradient(GradientContext& c) {
  if (!c.wants(0)) return;
  const Node& node = c.node();
  const int64_t back = node.get_int("reverse", 0) != 0 ? 0 : 1;
  c.set(0, c.b().op("CumSum", {c.dy(0), c.x(1)},
                    {{"exclusive", node.get_int("exclusive", 0)}, {"reverse", back}}));
}

// --- Definition

BatchRole cum_sum_role(const Node& node, int) {
  const Value* axis = node.input(1);
  if (!axis->is_constant() || !node.input(0)->type.ranked) return BatchRole::kCouples;
  const bool rows = front_axis(axis->data.to_ints().at(0), node.input(0)->type.rank()) != 0;
  return rows ? BatchRole::kRows : BatchRole::kCouples;
}

}  // namespace

void register_cum_sum(OpRegistry& ops) {
  OpDef op;
  op.name = "CumSum";
  op.doc = "Running sum along an axis.";
  op.since = {11, 14};
  op.inputs = {{"x"}, {"axis", Presence::kRequired, "integer axis"}};
  op.outputs = {{"y"}};
  op.attributes = {{"exclusive", "int, default 0: 1 leaves the element itself out"},
                   {"reverse", "int, default 0: 1 sums from the end"}};
  op.infer = infer_cum_sum;
  op.gradient = gradient(cum_sum_gradient);
  op.batch = cum_sum_role;
  ops.add(std::move(op));
}

}  // namespace sardonyx::ops
