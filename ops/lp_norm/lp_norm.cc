// LpNormalization: y = x / n, where n is the sum of |x| (p = 1) or the root of the sum of x^2
// (p = 2) along an axis.
//
// Where all x along the axis are 0, y is 0, and so is the gradient.
// Inputs   x                                                     Output  y, the shape of x
// L1 floating elements     L2 -rank <= axis < rank     L3 p is 1 or 2
// Gradient dx = LpNormGrad(x, dy), which computes n again
//             = (dy - d * sum of dy y) / n, where d is the sign of x (p = 1) or y (p = 2)
// Source   ONNX LpNormalization-1, 22
#include "ops/core/axes.h"
#include "ops/core/definition.h"
#include "ops/core/elementwise.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"

namespace sardonyx::ops {

namespace {

// --- Schema

const std::vector<AttributeDef> kAttributes = {
    {"axis", "int, default -1: the axis whose norm becomes 1"},
    {"p", "int, default 2: 1 or 2"},
};

// --- Shape

void require_operand(const InferContext& c) {
  require_floating(c, 0, "L1");
  const int64_t axis = c.node().get_int("axis", -1), p = c.node().get_int("p", 2);
  c.require(c.rank(0) < 0 || (axis >= -c.rank(0) && axis < c.rank(0)), "L2",
            "axis {} is out of range for a value with {} axes", axis, c.rank(0));
  c.require(p == 1 || p == 2, "L3", "p is {}, expected 1 or 2", p);
}

void infer_lp_norm(InferContext& c) {
  require_operand(c);
  infer_same(c);
}

void infer_lp_norm_grad(InferContext& c) {
  require_operand(c);
  infer_same_shapes(c, 0, 1, "L2");
}

// --- Gradient

void lp_norm_gradient(GradientContext& c) {
  c.set(0, c.b().own("LpNormGrad", {c.x(0), c.dy(0)}, c.node().attributes));
}

// --- Definition

BatchRole rows_off_axis(const Node& node, int slot) {
  const TensorType& x = node.input(0)->type;
  const bool over_rows = !x.ranked || front_axis(node.get_int("axis", -1), x.rank()) == 0;
  return over_rows ? BatchRole::kCouples : rows_of_all(node, slot);
}

}  // namespace

void register_lp_norm(OpRegistry& ops) {
  OpDef op = standard_op("LpNormalization", "Divides by the norm along an axis.", {1, 22}, {{"x"}},
                         {{"y"}}, infer_lp_norm);
  op.attributes = kAttributes;
  op.gradient = gradient(lp_norm_gradient);
  op.batch = rows_off_axis;
  ops.add(std::move(op));

  OpDef grad = gradient_op("LpNormGrad", "Gradient of LpNormalization.", "LpNormalization",
                           {{"x"}, {"dy"}}, {{"dx"}}, infer_lp_norm_grad);
  grad.attributes = kAttributes;
  grad.batch = rows_off_axis;
  ops.add(std::move(grad));
}

}  // namespace sardonyx::ops
