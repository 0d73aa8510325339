// What ends a step. SGD(w, g, lr, scale, m, started) -> w', m', as torch.optim.SGD:
//
//   g = g * scale + weight_decay * w
//   m' = momentum * m + (1 - dampening) * g, and m' = g while started is 0
//   w' = w - lr * (nesterov ? g + momentum * m' : m')         without momentum: w - lr * g
//
// A scale of NaN (GradScale says why) skips the step: w' = w, m' = m. w' overwrites w, m' m.
// O1 g, m have the shape of w    O2 lr, scale are scalars of w's type    O3 momentum needs m,
// started O4 momentum, dampening, weight_decay >= 0; nesterov needs momentum > 0 and dampening 0
//
// GradScale(weight, loss_sum, norms...) -> scale, grad_norm: scale is what gradients are multiplied
//   with: 1 / weight (0 where that is 0; 1 when divide is 0), less where clip_norm asks for it, and
//   NaN when the loss or a gradient is not finite. `norms` are sums of squares, grad_norm is the
//   norm of the scaled gradient before it is clipped.
// SquaredNorm(x) = sum of x^2. The order of the sum doesn't depend on the number of threads.
// Started(started, scale) = 1, or `started` where the step was skipped.
// Accumulate(acc, x) = acc + x, which overwrites acc.
// O5 operands of Accumulate have one shape
#include "ops/core/elementwise.h"
#include "ops/core/infer.h"
#include "ops/core/step_op.h"

namespace sardonyx::ops {

namespace {

// --- Shape

void require_scalar(const InferContext& context, int input, DType dtype) {
  const TensorType& type = context.type(input);
  context.require(type.dtype == dtype && (!type.ranked || type.rank() == 0), "O2",
                  "input {} has type {}, expected a {} scalar", input, type.str(),
                  graph::dtype_name(dtype));
}

void require_shape_of(const InferContext& context, int input, int other, const char* constraint) {
  const TensorType &a = context.type(input), &b = context.type(other);
  const bool known = a.is_static() && b.is_static();
  context.require(a.dtype == b.dtype && (!known || a.shape() == b.shape()), constraint,
                  "input {} has type {}, but input {} has type {}", input, a.str(), other, b.str());
}

void infer_sgd(InferContext& context) {
  require_floating(context, 0, "O1");
  require_shape_of(context, 1, 0, "O1");
  require_scalar(context, 2, context.dtype(0));
  require_scalar(context, 3, context.dtype(0));
  const Node& node = context.node();
  const double momentum = node.get_float("momentum", 0);
  const double dampening = node.get_float("dampening", 0);
  const bool nesterov = node.get_int("nesterov", 0) != 0;
  context.require(momentum >= 0 && dampening >= 0 && node.get_float("weight_decay", 0) >= 0, "O4",
                  "momentum, dampening and weight_decay must not be negative");
  context.require(
      !nesterov || (momentum > 0 && dampening == 0), "O4",
      "nesterov needs momentum above 0 and dampening 0, found momentum {}, dampening {}", momentum,
      dampening);
  context.require(momentum == 0 || (context.has(4) && context.has(5)), "O3",
                  "momentum {} needs the inputs m and started", momentum);
  context.set(0, context.type(0));
  if (!context.has(4)) return;
  require_shape_of(context, 4, 0, "O1");
  require_scalar(context, 5, DType::kInt64);
  context.set(1, context.type(4));
}

void infer_scalar(InferContext& context) {
  require_floating(context, 0, "O2");
  context.set(0, context.dtype(0), {});
  context.set(1, context.dtype(0), {});
}

void infer_started(InferContext& context) {
  require_scalar(context, 0, DType::kInt64);
  infer_same(context);
}

void infer_accumulate(InferContext& context) {
  require_floating(context, 0, "O5");
  require_shape_of(context, 1, 0, "O5");
  infer_same(context);
}

// --- Definition

OpDef sgd() {
  OpDef op = step_op("SGD", "Stochastic gradient descent with momentum and weight decay.");
  op.inputs = {{"w"},
               {"g"},
               {"lr"},
               {"scale"},
               {"m", Presence::kOptional},
               {"started", Presence::kOptional}};
  op.outputs = {{"w_next"}, {"m_next", Presence::kOptional}};
  op.attributes = {{"momentum", "float, default 0"},
                   {"dampening", "float, default 0"},
                   {"nesterov", "int, default 0: 1 looks ahead"},
                   {"weight_decay", "float, default 0: added to the gradient times w"}};
  op.infer = infer_sgd;
  op.aliases = [](const Node& node) {
    std::vector<std::pair<int, int>> pairs{{0, 0}};
    if (node.input(4) != nullptr && node.output(1) != nullptr) pairs.emplace_back(1, 4);
    return pairs;
  };
  return op;
}

OpDef grad_scale() {
  OpDef op = step_op("GradScale", "The factor that turns summed gradients into that of the step.");
  op.inputs = {{"weight"}, {"loss_sum", Presence::kOptional}, {"norms", Presence::kVariadic}};
  op.outputs = {{"scale"}, {"grad_norm", Presence::kOptional}};
  op.attributes = {{"divide", "int, default 1: 0 leaves sums undivided"},
                   {"clip_norm", "float, default 0 (none): largest norm of the scaled gradient"}};
  op.infer = infer_scalar;
  return op;
}

OpDef squared_norm() {
  OpDef op = step_op("SquaredNorm", "Sum of the squares of all elements.");
  op.inputs = {{"x"}};
  op.outputs = {{"norm2"}};
  op.infer = infer_scalar;
  return op;
}

OpDef started() {
  OpDef op = step_op("Started", "Whether any step has been taken: 1, unless this one is skipped.");
  op.inputs = {{"started"}, {"scale"}};
  op.outputs = {{"next"}};
  op.infer = infer_started;
  return op;
}

OpDef accumulate() {
  OpDef op = step_op("Accumulate", "Adds to an accumulator.");
  op.inputs = {{"acc"}, {"x"}};
  op.outputs = {{"next"}};
  op.infer = infer_accumulate;
  op.aliases = [](const Node&) { return std::vector<std::pair<int, int>>{{0, 0}}; };
  return op;
}

}  // namespace

void register_optimizer(OpRegistry& ops) {
  ops.add(sgd());
  ops.add(grad_scale());
  ops.add(squared_norm());
  ops.add(started());
  ops.add(accumulate());
}

}  // namespace sardonyx::ops
