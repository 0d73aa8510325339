// What stands between gradients and the update.
//
// Accumulate(acc, x) = acc + x, which overwrites acc.
// SquaredNorm(x...) = sum of the squares of all elements, in double. The order of the sum doesn't
//   depend on the number of threads.
// GradScale(weight, loss_sum, norms...) -> scale, grad_norm: scale is what gradients are multiplied
//   with: 1 / weight (0 where that is 0; 1 when divide is 0), less where clip_norm asks for it, and
//   NaN when it, the loss or a gradient is not finite. `norms` are sums of squares, grad_norm is
//   the norm of the scaled gradient before it is clipped.
//
// N1 operands of Accumulate have one shape    N2 inputs are floating, norms double
// N3 clip_norm >= 0
#include "ops/optimizer/gradients.h"

#include "ops/core/elementwise.h"
#include "ops/core/infer.h"
#include "ops/core/step_op.h"

namespace sardonyx::ops::optimizer {

namespace {

// --- Shape

void infer_accumulate(InferContext& context) {
  require_floating(context, 0, "N1");
  infer_same_shapes(context, 0, 1, "N1");
}

void infer_squared_norm(InferContext& context) {
  for (int i = 0; i < context.num_inputs(); ++i) require_floating(context, i, "N2");
  context.set(0, DType::kFloat64, {});
}

void infer_grad_scale(InferContext& context) {
  require_floating(context, 0, "N2");
  for (int i = 2; i < context.num_inputs(); ++i) {
    context.require(context.dtype(i) == DType::kFloat64, "N2",
                    "input {} is {}, expected the double of SquaredNorm", i,
                    graph::dtype_name(context.dtype(i)));
  }
  const double clip_norm = context.node().get_float("clip_norm", 0);
  context.require(clip_norm >= 0, "N3", "clip_norm is {}, expected at least 0", clip_norm);
  context.set(0, context.dtype(0), {});
  context.set(1, context.dtype(0), {});
}

// --- Definition

OpDef accumulate() {
  OpDef op = step_op("Accumulate", "Adds to an accumulator.");
  op.inputs = {{"acc"}, {"x"}};
  op.outputs = {{"next"}};
  op.infer = infer_accumulate;
  op.aliases = [](const Node&) { return std::vector<std::pair<int, int>>{{0, 0}}; };
  return op;
}

OpDef squared_norm() {
  OpDef op = step_op("SquaredNorm", "Sum of the squares of all elements.");
  op.inputs = {{"x", Presence::kVariadic}};
  op.outputs = {{"norm2"}};
  op.infer = infer_squared_norm;
  return op;
}

OpDef grad_scale() {
  OpDef op = step_op("GradScale", "The factor that turns summed gradients into that of the step.");
  op.inputs = {{"weight"}, {"loss_sum", Presence::kOptional}, {"norms", Presence::kVariadic}};
  op.outputs = {{"scale"}, {"grad_norm", Presence::kOptional}};
  op.attributes = {{"divide", "int, default 1: 0 leaves sums undivided"},
                   {"clip_norm", "float, default 0 (none): largest norm of the scaled gradient"}};
  op.infer = infer_grad_scale;
  return op;
}

}  // namespace

void register_gradients(OpRegistry& ops) {
  ops.add(accumulate());
  ops.add(squared_norm());
  ops.add(grad_scale());
}

}  // namespace sardonyx::ops::optimizer
