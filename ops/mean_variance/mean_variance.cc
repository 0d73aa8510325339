// MeanVarianceNormalization: y = (x - m) / (s + 1e-9)    m, s = mean and (population) deviation
// over axes
//
// With the default axes 0, 2, 3 the statistics are those of a channel over the whole micro-batch,
// in evaluation too: nothing is stored, and a sample's result depends on the others.
// Where all x of a group are equal, y is 0; the gradient is that of s taken as a constant there.
// Inputs   x                                                     Output  y, the shape of x
// V1 floating elements     V2 -rank <= axes < rank, none twice, one at least
// Gradient dx = MeanVarianceNormGrad(x, dy), which computes m and s again
//             = (dy - mean of dy - (x - m) * mean of dy (x - m) / (s (s + 1e-9))) / (s + 1e-9)
// Source   ONNX MeanVarianceNormalization-9, 13
#include "ops/mean_variance/mean_variance.h"
#include "ops/core/axes.h"
#include "ops/core/definition.h"
#include "ops/core/elementwise.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"

namespace sardonyx::ops {

namespace mean_variance {

std::vector<int64_t> axes_of(const Node& node) { return node.get_ints("axes", {0, 2, 3}); }

}  // namespace mean_variance

namespace {

using mean_variance::axes_of;

// --- Schema

const std::vector<AttributeDef> kAttributes = {
    {"axes", "ints, default 0, 2, 3: over which the statistics are taken"}};

// --- Shape

void require_operand(const InferContext& c) {
  require_floating(c, 0, "V1");
  const std::vector<int64_t> axes = axes_of(c.node());
  c.require(!axes.empty(), "V2", "axes is empty, expected one axis at least");
  if (c.rank(0) < 0) return;
  std::vector<bool> seen(static_cast<size_t>(c.rank(0)), false);
  for (const int64_t axis : axes) {
    c.require(axis >= -c.rank(0) && axis < c.rank(0), "V2",
              "axis {} is out of range for a value with {} axes", axis, c.rank(0));
    const auto at = static_cast<size_t>(front_axis(axis, c.rank(0)));
    c.require(!seen[at], "V2", "axis {} is listed twice", axis);
    seen[at] = true;
  }
}

void infer_normalization(InferContext& c) {
  require_operand(c);
  infer_same(c);
}

void infer_gradient(InferContext& c) {
  require_operand(c);
  infer_same_shapes(c, 0, 1, "V2");
}

// --- Gradient

void gradient_rule(GradientContext& c) {
  c.set(0, c.b().own("MeanVarianceNormGrad", {c.x(0), c.dy(0)}, c.node().attributes));
}

// --- Definition

BatchRole rows_off_axes(const Node& node, int slot) {
  const TensorType& x = node.input(0)->type;
  if (!x.ranked) return BatchRole::kCouples;
  for (const int64_t axis : axes_of(node)) {
    if (front_axis(axis, x.rank()) == 0) return BatchRole::kCouples;
  }
  return rows_of_all(node, slot);
}

}  // namespace

void register_mean_variance(OpRegistry& ops) {
  OpDef op = standard_op("MeanVarianceNormalization",
                         "Subtracts the mean over axes and divides by the standard deviation.",
                         {9, 13}, {{"x"}}, {{"y"}}, infer_normalization);
  op.attributes = kAttributes;
  op.gradient = gradient(gradient_rule);
  op.batch = rows_off_axes;
  ops.add(std::move(op));

  OpDef grad = gradient_op("MeanVarianceNormGrad", "Gradient of MeanVarianceNormalization.",
                           "MeanVarianceNormalization", {{"x"}, {"dy"}}, {{"dx"}}, infer_gradient);
  grad.attributes = kAttributes;
  grad.batch = rows_off_axes;
  ops.add(std::move(grad));
}

}  // namespace sardonyx::ops
