// CumSum   y[.., i, ..] = sum of x[.., k, ..] over k <= i along one axis
// CumProd  the product of them
// sardonyx.CumProdGrad(x, axis, dy)    dx[k] = sum over i >= k of dy[i] times the product of the
//                                      x[j], j <= i, but x[k]: exact where an x is zero, too
//
// exclusive: k < i instead          reverse: from the end, k >= i (k > i)
// Inputs   x of any shape    axis int32 or int64, one element, constant      Output  y like x
// C1 -rank(x) <= axis < rank(x)    C2 numbers    C3 axis has one element
// C4 x and dy have one shape
// Gradient of CumSum: CumSum of dy along the same axis the other way round; x and y are not read.
//          Of CumProd: CumProdGrad, which reads x.
// Batch    rows, unless the line runs over axis 0.
// Source   ONNX CumSum-14, CumProd-26
#include <algorithm>

#include "ops/core/axes.h"
#include "ops/core/elementwise.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"

namespace sardonyx::ops {

namespace {

// --- Shape

void require_axis(const InferContext& c) {
  require_numbers(c, 0, "C2");
  const std::vector<int64_t> axis = c.ints(1);  // must be known
  c.require(axis.size() == 1, "C3", "axis has {} elements, expected one", axis.size());
  const int rank = c.rank(0);
  c.require(rank < 0 || (axis[0] >= -rank && axis[0] < rank), "C1",
            "axis {} is out of range for {} axes, expected {} to {}", axis[0], rank, -rank,
            rank - 1);
}

void infer_running(InferContext& c) {
  require_axis(c);
  infer_same(c);
}

void infer_cum_prod_grad(InferContext& c) {
  require_axis(c);
  const TensorType &x = c.type(0), &dy = c.type(2);
  const bool fits = !x.ranked || !dy.ranked || std::ranges::equal(x.dims, dy.dims, agree);
  c.require(fits, "C4", "x has type {}, but dy has type {}", x.str(), dy.str());
  infer_same(c);
}

// --- Gradient

void cum_sum_gradient(GradientContext& c) {
  if (!c.wants(0)) return;
  const Node& node = c.node();
  const int64_t back = node.get_int("reverse", 0) != 0 ? 0 : 1;
  c.set(0, c.b().op("CumSum", {c.dy(0), c.x(1)},
                    {{"exclusive", node.get_int("exclusive", 0)}, {"reverse", back}}));
}

void cum_prod_gradient(GradientContext& c) {
  if (!c.wants(0)) return;
  const Node& node = c.node();
  c.set(0, c.b().own("CumProdGrad", {c.x(0), c.x(1), c.dy(0)},
                     {{"exclusive", node.get_int("exclusive", 0)},
                      {"reverse", node.get_int("reverse", 0)}}));
}

// --- Definition

BatchRole running_role(const Node& node, int) {
  const Value* axis = node.input(1);
  const TensorType& x = node.input(0)->type;
  if (!axis->is_constant() || !x.ranked) return BatchRole::kCouples;
  if (front_axis(axis->data.to_ints().at(0), x.rank()) == 0) return BatchRole::kCouples;
  const Value* dy = node.input(2);
  const bool rows = dy == nullptr || carries_batch(node, dy) == carries_batch(node, node.input(0));
  return rows ? BatchRole::kRows : BatchRole::kCouples;
}

OpDef definition(std::string name, std::string doc) {
  OpDef op;
  op.name = std::move(name);
  op.doc = std::move(doc);
  op.inputs = {{"x"}, {"axis", Presence::kRequired, "integer axis"}};
  op.outputs = {{"y"}};
  op.attributes = {{"exclusive", "int, default 0: 1 leaves the element itself out"},
                   {"reverse", "int, default 0: 1 begins at the end"}};
  op.infer = infer_running;
  op.batch = running_role;
  return op;
}

}  // namespace

void register_cum_sum(OpRegistry& ops) {
  OpDef sum = definition("CumSum", "Running sum along an axis.");
  sum.since = {11, 14};
  sum.gradient = gradient(cum_sum_gradient);
  ops.add(std::move(sum));
  OpDef product = definition("CumProd", "Running product along an axis.");
  product.since = {26};
  product.gradient = gradient(cum_prod_gradient);
  ops.add(std::move(product));
  OpDef back = definition("CumProdGrad", "Gradient of CumProd from its input.");
  back.domain = kDomain;
  back.inputs.push_back({"dy"});
  back.outputs = {{"dx"}};
  back.infer = infer_cum_prod_grad;
  back.gradient = not_differentiable("second derivative of CumProd");
  ops.add(std::move(back));
}

}  // namespace sardonyx::ops
