// What ends a step: the updates, exactly as in PyTorch (torch.optim, one tensor at a time).
//
// SGD(w, g, lr, scale, m, step) -> w', m'
//   u = clip(g * scale) + weight_decay * w
//   m' = momentum * m + (1 - dampening) * u, and m' = u in the first step (step is 0)
//   w' = w - lr * (nesterov ? u + momentum * m' : m')         without momentum: w - lr * u
// Adam, AdamW(w, g, lr, scale, m, v, step) -> w', m', v'      t = step + 1
//   Adam:  u = clip(g * scale) + weight_decay * w             w0 = w
//   AdamW: u = clip(g * scale)                                w0 = (1 - lr * weight_decay) * w
//   m' = m + (1 - beta1) * (u - m)                            v' = beta2 * v + (1 - beta2) * u * u
//   w' = w0 - lr / (1 - beta1^t) * m' / (sqrt(v') / sqrt(1 - beta2^t) + eps)
// Ema(ema, w, scale) -> ema' = ema + (1 - decay) * (w - ema)
// Advance(step, scale) -> step' = step + 1: updates taken so far
//
// lr is multiplied by lr_factor; clip cuts to [-clip_value, clip_value] (0: no clipping).
// A scale of NaN (GradScale says why) skips the step: nothing changes. x' overwrites x.
//
// O1 g, m, v have the shape of w, w that of ema
// O2 lr is a double scalar, scale one of w's type, step one of int64
// O3 momentum needs m, step
// O4 momentum, dampening, weight_decay, lr_factor, clip_value, eps >= 0;
//    beta1, beta2, decay in [0, 1); nesterov needs momentum > 0 and dampening 0
#include "ops/core/elementwise.h"
#include "ops/core/step_op.h"
#include "ops/optimizer/adaptive.h"
#include "ops/optimizer/gradients.h"
#include "ops/optimizer/shape_rules.h"

namespace sardonyx::ops {

namespace {

using namespace optimizer;  // shape_rules.h

// --- Shape

void infer_sgd(InferContext& context) {
  infer_update(context);
  require_not_negative(context, {"momentum", "dampening"});
  const Node& node = context.node();
  const double momentum = node.get_float("momentum", 0);
  const double dampening = node.get_float("dampening", 0);
  const bool nesterov = node.get_int("nesterov", 0) != 0;
  context.require(
      !nesterov || (momentum > 0 && dampening == 0), "O4",
      "nesterov needs momentum above 0 and dampening 0, found momentum {}, dampening {}", momentum,
      dampening);
  context.require(momentum == 0 || (context.has(4) && context.has(5)), "O3",
                  "momentum {} needs the inputs m and step", momentum);
  if (!context.has(4)) return;
  require_shape_of(context, 4, 0);
  require_scalar(context, 5, DType::kInt64);
  context.set(1, context.type(4));
}

void infer_adam(InferContext& context) {
  infer_update(context);
  require_not_negative(context, {"eps"});
  require_share(context, "beta1", 0.9);
  require_share(context, "beta2", 0.999);
  for (const int moment : {4, 5}) {
    require_shape_of(context, moment, 0);
    context.set(moment - 3, context.type(moment));
  }
  require_scalar(context, 6, DType::kInt64);
}

void infer_ema(InferContext& context) {
  require_floating(context, 0, "O1");
  require_shape_of(context, 1, 0);
  require_scalar(context, 2, context.dtype(0));
  require_share(context, "decay", 0);
  infer_same(context);
}

void infer_advance(InferContext& context) {
  require_scalar(context, 0, DType::kInt64);
  infer_same(context);
}

// --- Definition

OpDef sgd() {
  OpDef op = step_op("SGD", "Stochastic gradient descent with momentum and weight decay.");
  op.inputs = {
      {"w"}, {"g"}, {"lr"}, {"scale"}, {"m", Presence::kOptional}, {"step", Presence::kOptional}};
  op.outputs = {{"w_next"}, {"m_next", Presence::kOptional}};
  op.attributes = {{"momentum", "float, default 0"},
                   {"dampening", "float, default 0"},
                   {"nesterov", "int, default 0: 1 looks ahead"},
                   kWeightDecay,
                   kLrFactor,
                   kClipValue};
  op.infer = infer_sgd;
  op.aliases = [](const Node& node) {
    std::vector<std::pair<int, int>> pairs{{0, 0}};
    if (node.input(4) != nullptr && node.output(1) != nullptr) pairs.emplace_back(1, 4);
    return pairs;
  };
  return op;
}

OpDef adam(const char* name, const char* doc) {
  OpDef op = step_op(name, doc);
  op.inputs = {{"w"}, {"g"}, {"lr"}, {"scale"}, {"m"}, {"v"}, {"step"}};
  op.outputs = {{"w_next"}, {"m_next"}, {"v_next"}};
  op.attributes = {{"beta1", "float, default 0.9: share that m keeps"},
                   {"beta2", "float, default 0.999: share that v keeps"},
                   {"eps", "float, default 1e-8: added to the divisor"},
                   kWeightDecay,
                   kLrFactor,
                   kClipValue};
  op.infer = infer_adam;
  op.aliases = [](const Node&) { return std::vector<std::pair<int, int>>{{0, 0}, {1, 4}, {2, 5}}; };
  return op;
}

OpDef ema() {
  OpDef op = step_op("Ema", "Moving average of a parameter.");
  op.inputs = {{"ema"}, {"w"}, {"scale"}};
  op.outputs = {{"ema_next"}};
  op.attributes = {{"decay", "float, default 0: share that the average keeps"}};
  op.infer = infer_ema;
  op.aliases = [](const Node&) { return std::vector<std::pair<int, int>>{{0, 0}}; };
  return op;
}

OpDef advance() {
  OpDef op = step_op("Advance", "Counts the updates that were taken.");
  op.inputs = {{"step"}, {"scale"}};
  op.outputs = {{"step_next"}};
  op.infer = infer_advance;
  return op;
}

}  // namespace

void register_optimizer(OpRegistry& ops) {
  ops.add(sgd());
  ops.add(adam("Adam", "Adam; weight decay is part of the gradient."));
  ops.add(adam("AdamW", "Adam with decoupled weight decay."));
  ops.add(ema());
  ops.add(advance());
  optimizer::register_adaptive(ops);
  optimizer::register_gradients(ops);
}

}  // namespace sardonyx::ops
