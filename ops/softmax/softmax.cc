// Softmax: y = exp(x - max) / sum of exp(x - max)      LogSoftmax: y = x - max - log(sum ...)
//
// Both over `axis` (default -1); a row of minus infinities gives NaN.
// Inputs   x, any shape                                          Output  y, the shape of x
// C1 floating elements       C2 -rank <= axis < rank
// Below opset 13 the axes from `axis` (default 1) on are normalised together: the private attribute
// flatten = 1.
// Gradient Softmax:    SoftmaxGrad(y, dy)     dx = y (dy - sum of y dy)
//          LogSoftmax: LogSoftmaxGrad(y, dy)  dx = dy - exp(y) sum of dy
//          reads y; does not read x, so x may be overwritten.
// C3 (gradients) y and dy have one shape
// Source   ONNX Softmax-1, 11, 13, LogSoftmax-1, 11, 13
#include "ops/softmax/softmax.h"

#include "ops/core/constraint.h"
#include "ops/core/elementwise.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/core/normalize.h"
#include "ops/core/strided.h"

namespace sardonyx::ops {

namespace softmax {

int64_t first_axis(const Node& node, int64_t rank) {
  const int64_t axis = node.get_int("axis", -1);
  // Flattening at `rank` leaves groups of one element.
  const int64_t end = node.get_int(kFlatten, 0) != 0 ? rank + 1 : rank;
  if (axis < -rank || axis >= end) {
    throw ConstraintError("C2", "axis {} is out of range for a value with {} axes", axis, rank);
  }
  return axis < 0 ? axis + rank : axis;
}

Lines groups_of(const Node& node, const TensorType& x) {
  const int64_t axis = first_axis(node, x.rank());
  return Lines::over(stored_dims(x), axis, node.get_int(kFlatten, 0) != 0 ? x.rank() : axis + 1);
}

}  // namespace softmax

namespace {

// --- Schema

void normalize_softmax(NormalizeContext& context) {
  if (context.opset() >= 13) return;
  context.node().attributes.try_emplace("axis", int64_t{1});
  context.node().attributes[softmax::kFlatten] = int64_t{1};
}

// --- Shape

void infer_softmax(InferContext& context) {
  require_floating(context, 0, "C1");
  if (context.rank(0) >= 0) softmax::first_axis(context.node(), context.rank(0));
  infer_same(context);
}

void infer_gradient(InferContext& context) {
  require_floating(context, 0, "C1");
  if (context.rank(0) >= 0) softmax::first_axis(context.node(), context.rank(0));
  infer_same_shapes(context, 0, 1, "C3");
}

// --- Gradient

Gradient gradient_by(const char* op) {
  return gradient([op](GradientContext& g) {
    g.set(0, g.b().own(op, {g.y(0), g.dy(0)}, g.node().attributes));
  });
}

// --- Definition

BatchRole batch_role(const Node& node, int slot) {
  const TensorType& x = node.input(0)->type;
  if (!x.ranked || softmax::first_axis(node, x.rank()) == 0) return BatchRole::kCouples;
  return rows_of_all(node, slot);
}

OpDef define(const char* domain, const char* name, const char* doc) {
  OpDef op;
  op.domain = domain;
  op.name = name;
  op.doc = doc;
  op.inputs = {{"x"}};
  op.outputs = {{"y"}};
  op.attributes = {
      {"axis", "int, default -1: the axis whose elements sum to 1"},
      {softmax::kFlatten, "private int, default 0: 1 takes all axes from `axis` on together",
       Writer::kRules}};
  op.infer = infer_softmax;
  op.batch = batch_role;
  return op;
}

OpDef forward(const char* name, const char* doc, const char* gradient_op, ClassOutput output) {
  OpDef op = define("", name, doc);
  op.class_output = output;
  op.since = {1, 11, 13};
  op.normalize = normalize_softmax;
  op.gradient = gradient_by(gradient_op);
  return op;
}

OpDef backward(const char* name, const char* doc) {
  OpDef op = define(kDomain, name, doc);
  op.inputs = {{"y"}, {"dy"}};
  op.outputs = {{"dx"}};
  op.infer = infer_gradient;
  op.gradient = not_differentiable("second derivative of a softmax");
  return op;
}

}  // namespace

void register_softmax(OpRegistry& ops) {
  ops.add(forward("Softmax", "Exponentials divided by their sum.", "SoftmaxGrad",
                  ClassOutput::kProbabilities));
  ops.add(forward("LogSoftmax", "Logarithm of the softmax.", "LogSoftmaxGrad",
                  ClassOutput::kLogProbabilities));
  ops.add(backward("SoftmaxGrad", "Gradient of Softmax from its output."));
  ops.add(backward("LogSoftmaxGrad", "Gradient of LogSoftmax from its output."));
}

}  // namespace sardonyx::ops
