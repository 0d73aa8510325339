// Reductions: y[kept] = f over the removed axes of x.
//
// ReduceSum  ReduceMean  ReduceMax  ReduceMin  ReduceProd
// ReduceL1 (sum of |x|)  ReduceL2 (root of the sum of x^2)  ReduceSumSquare (sum of x^2)
// ReduceLogSum (log of the sum)  ReduceLogSumExp (log of the sum of exp(x), shifted by the maximum)
// Inputs   x of any shape    axes int64[k], constant (optional: all axes; none of them where
//          noop_with_empty_axes)                        Output  y: removed axes have 1 (keepdims)
// sardonyx.ReduceExtremumGrad(x, y, dy)  dy / count for each of the `count` elements equal to y
// sardonyx.ReduceProdGrad(x, dy)         dy times the product of the other elements
//
// C1 -rank(x) <= axis < rank(x)    C2 no axis twice    C3 numbers; Max and Min take booleans too
// Of no elements: sum 0, mean NaN, product 1, max and min the lowest and highest number (of
// booleans false and true), log of a sum -inf.
// Gradient Sum and Mean: dy spread over x, neither x nor y is read. Max and Min: ties share evenly.
//          The last five are nodes; L2 reads x and y and is 0 at the zero vector, L1 is 0 at 0.
// Batch    ReduceSum over axis 0 is a sum over rows (bias gradients); the others couple the rows.
// Source   ONNX ReduceSum-13, ReduceMean-18, ReduceMax-20, ReduceMin-20, ReduceProd-18,
//          ReduceL1-18, ReduceL2-18, ReduceSumSquare-18, ReduceLogSum-28, ReduceLogSumExp-28
#include "ops/core/constraint.h"
#include "ops/core/definition.h"
#include "ops/core/elementwise.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/core/normalize.h"
#include "ops/reduce/axes.h"

namespace sardonyx::ops {

namespace reduce {

namespace {

std::vector<bool> flags_of(const std::vector<int64_t>& axes, int rank) {
  std::vector<bool> flags(rank, false);
  for (int64_t axis : axes) {
    if (axis < -rank || axis >= rank) {
      throw ConstraintError("C1", "axis {} is out of range for {} axes, expected {} to {}", axis,
                            rank, -rank, rank - 1);
    }
    const int64_t at = axis < 0 ? axis + rank : axis;
    if (flags[at]) throw ConstraintError("C2", "axis {} is named twice", at);
    flags[at] = true;
  }
  return flags;
}

}  // namespace

std::vector<bool> reduced_axes(const Node& node, const Tensor* axes, int rank) {
  if (axes == nullptr || axes->numel() == 0) {
    return std::vector<bool>(rank, node.get_int("noop_with_empty_axes", 0) == 0);
  }
  return flags_of(axes->to_ints(), rank);
}

std::vector<bool> attribute_axes(const Node& node, int rank) {
  return flags_of(node.get_ints("axes", {}), rank);
}

}  // namespace reduce

namespace {

// --- Schema

void normalize_axes(NormalizeContext& c) {
  if (c.node().input(1) == nullptr) c.attribute_to_input("axes", 1);
}

bool is_extremum(std::string_view op) { return op == "ReduceMax" || op == "ReduceMin"; }

// --- Shape

void infer_reduction(InferContext& c) {
  const DType dtype = c.dtype(0);
  if (dtype != DType::kBool || !is_extremum(c.node().op)) require_numbers(c, 0, "C3");
  if (c.has(1)) c.ints(1);  // must be known
  if (c.rank(0) < 0) return c.set_unranked(0, dtype);
  const std::vector<bool> removed = reduce::reduced_axes(c.node(), c.constant(1), c.rank(0));
  const bool keep = c.node().get_int("keepdims", 1) != 0;
  std::vector<Dim> dims;
  for (int axis = 0; axis < c.rank(0); ++axis) {
    if (!removed[axis]) {
      dims.push_back(c.dims(0)[axis]);
    } else if (keep) {
      dims.emplace_back(1);
    }
  }
  c.set(0, dtype, std::move(dims));
}

// --- Gradient

std::vector<bool> removed_axes(const Node& node) {
  const Value* axes = node.input(1);
  return reduce::reduced_axes(node, axes == nullptr ? nullptr : &axes->data,
                              node.input(0)->type.rank());
}

// y or dy under the shape with ones in place of the removed axes: it broadcasts against x.
Value* with_ones(GradientContext& c, Value* y) {
  const std::vector<bool> removed = removed_axes(c.node());
  std::vector<int64_t> kept = GradientContext::shape(c.x(0));
  for (size_t axis = 0; axis < kept.size(); ++axis) {
    if (removed[axis]) kept[axis] = 1;
  }
  return GradientContext::shape(y) == kept ? y : c.b().op("Reshape", {y, c.b().ints(kept)});
}

// The same, spread over x.
Value* spread(GradientContext& c, Value* dy) {
  const std::vector<int64_t> full = GradientContext::shape(c.x(0));
  dy = with_ones(c, dy);
  return GradientContext::shape(dy) == full ? dy : c.b().op("Expand", {dy, c.b().ints(full)});
}

void sum_gradient(GradientContext& c) {
  if (c.wants(0)) c.set(0, spread(c, c.dy(0)));
}

void mean_gradient(GradientContext& c) {
  if (!c.wants(0)) return;
  const int64_t all = c.x(0)->type.numel(), means = c.y(0)->type.numel();
  const double share = all == 0 ? 0 : static_cast<double>(means) / static_cast<double>(all);
  Value* scale = c.b().scalar(c.x(0)->type.dtype, share);
  c.set(0, spread(c, c.b().op("Mul", {c.dy(0), scale})));
}

void l1_gradient(GradientContext& c) {  // dy sign(x)
  if (c.wants(0)) c.set(0, c.b().own("AbsGrad", {c.x(0), spread(c, c.dy(0))}));
}

void l2_gradient(GradientContext& c) {  // dy x / y, 0 where y = 0
  if (!c.wants(0)) return;
  Value* zero = c.b().scalar(c.y(0)->type.dtype, 0);
  Value* share = c.b().op(
      "Where", {c.b().op("Equal", {c.y(0), zero}), zero, c.b().op("Div", {c.dy(0), c.y(0)})});
  c.set(0, c.b().op("Mul", {c.x(0), with_ones(c, share)}));
}

void sum_square_gradient(GradientContext& c) {  // 2 dy x
  if (!c.wants(0)) return;
  Value* twice = c.b().op("Mul", {c.dy(0), c.b().scalar(c.dy(0)->type.dtype, 2)});
  c.set(0, c.b().op("Mul", {c.x(0), with_ones(c, twice)}));
}

void log_sum_gradient(GradientContext& c) {  // dy / sum
  if (!c.wants(0)) return;
  c.set(0, spread(c, c.b().op("Div", {c.dy(0), c.b().op("Exp", {c.y(0)})})));
}

void log_sum_exp_gradient(GradientContext& c) {  // dy exp(x - y)
  if (!c.wants(0)) return;
  Value* share = c.b().op("Exp", {c.b().op("Sub", {c.x(0), with_ones(c, c.y(0))})});
  c.set(0, c.b().op("Mul", {share, with_ones(c, c.dy(0))}));
}

graph::Attributes axes_attribute(const Node& node) {
  std::vector<int64_t> axes;
  const std::vector<bool> removed = removed_axes(node);
  for (size_t axis = 0; axis < removed.size(); ++axis) {
    if (removed[axis]) axes.push_back(static_cast<int64_t>(axis));
  }
  return {{"axes", axes}};
}

void extremum_gradient(GradientContext& c) {
  if (!c.wants(0)) return;
  c.set(0, c.b().own("ReduceExtremumGrad", {c.x(0), c.y(0), c.dy(0)}, axes_attribute(c.node())));
}

void prod_gradient(GradientContext& c) {
  if (!c.wants(0)) return;
  c.set(0, c.b().own("ReduceProdGrad", {c.x(0), c.dy(0)}, axes_attribute(c.node())));
}

// --- Definition

bool removes_rows(const Node& node) {
  const std::vector<bool> removed = removed_axes(node);
  return !removed.empty() && removed[0];
}

BatchRole sum_role(const Node& node, int) {
  return removes_rows(node) ? BatchRole::kSum : BatchRole::kRows;
}

BatchRole other_role(const Node& node, int) {
  return removes_rows(node) ? BatchRole::kCouples : BatchRole::kRows;
}

BatchRole gradient_role(const Node& node, int) {
  const std::vector<bool> removed = reduce::attribute_axes(node, node.input(0)->type.rank());
  return removed.empty() || removed[0] ? BatchRole::kCouples : BatchRole::kRows;
}

OpDef reduction(std::string name, std::string doc, std::vector<int> since, Gradient rule) {
  OpDef op;
  op.name = std::move(name);
  op.doc = std::move(doc);
  op.since = std::move(since);
  op.inputs = {{"data"}, {"axes", Presence::kOptional, "integer axes"}};
  op.outputs = {{"reduced"}};
  op.attributes = {
      {"keepdims", "int, default 1: removed axes stay with one element"},
      {"noop_with_empty_axes", "int, default 0: 1 makes no axes mean none, not all of them"}};
  op.normalize = normalize_axes;
  op.infer = infer_reduction;
  op.gradient = std::move(rule);
  op.batch = other_role;
  // One rounding of what is summed in double. Sums themselves may be losses.
  if (op.name == "ReduceMean" || is_extremum(op.name)) op.narrow = Narrow::kFollows;
  if (is_extremum(op.name)) op.axes = AxisUse::kReduction;
  return op;
}

OpDef backward(const char* name, const char* doc, std::vector<Port> inputs) {
  OpDef op = gradient_op(name, doc, "a reduction", std::move(inputs), {{"dx"}}, infer_same);
  op.attributes = {{"axes", "ints: removed axes"}};
  op.batch = gradient_role;
  return op;
}

}  // namespace

void register_reduce(OpRegistry& ops) {
  OpDef sum = reduction("ReduceSum", "Sum over axes.", {1, 11, 13}, gradient(sum_gradient));
  sum.batch = sum_role;
  ops.add(std::move(sum));
  ops.add(reduction("ReduceMean", "Mean over axes.", {1, 11, 13, 18}, gradient(mean_gradient)));
  ops.add(reduction("ReduceMax", "Maximum over axes; ties share the gradient evenly.",
                    {1, 11, 12, 13, 18, 20}, gradient(extremum_gradient)));
  ops.add(reduction("ReduceMin", "Minimum over axes; ties share the gradient evenly.",
                    {1, 11, 12, 13, 18, 20}, gradient(extremum_gradient)));
  ops.add(reduction("ReduceProd", "Product over axes.", {1, 11, 13, 18}, gradient(prod_gradient)));
  const std::vector<int> since = {1, 11, 13, 18};
  ops.add(reduction("ReduceL1", "Sum of absolute values over axes.", since, gradient(l1_gradient)));
  ops.add(reduction("ReduceL2", "Euclidean norm over axes.", since, gradient(l2_gradient)));
  ops.add(reduction("ReduceSumSquare", "Sum of squares over axes.", since,
                    gradient(sum_square_gradient)));
  const std::vector<int> logarithms = {1, 11, 13, 18, 28};
  ops.add(reduction("ReduceLogSum", "Logarithm of the sum over axes.", logarithms,
                    gradient(log_sum_gradient)));
  ops.add(reduction("ReduceLogSumExp", "Logarithm of the sum of exponentials over axes.",
                    logarithms, gradient(log_sum_exp_gradient)));
  ops.add(backward("ReduceExtremumGrad",
                   "dy, shared evenly, where x is the maximum or minimum y; else 0.",
                   {{"x"}, {"y"}, {"dy"}}));
  ops.add(
      backward("ReduceProdGrad", "dy times the product of the other elements.", {{"x"}, {"dy"}}));
}

}  // namespace sardonyx::ops
