// Updates with other memories than those of optimizer.cc: as in PyTorch (torch.optim, one tensor at
// a time) where it has them, else as in their papers.
//
// u = clip(g * scale), and u + weight_decay * w in Adagrad and RMSprop; t = step + 1
// Adagrad(w, g, lr, scale, h) -> w', h'
//   h' = h + u^2                            w' = w - lr * u / (sqrt(h') + eps)
// RMSprop(w, g, lr, scale, v, mean, m) -> w', v', mean', m'          mean: centered   m: momentum
//   v' = alpha * v + (1 - alpha) * u^2      mean' = mean + (1 - alpha) * (u - mean)
//   d = sqrt(v' - mean'^2) + eps            m' = momentum * m + u / d      w' = w - lr * m'
// Lion(w, g, lr, scale, m) -> w', m'                                  Chen et al. 2023, algorithm 2
//   w' = (1 - lr * weight_decay) * w - lr * sign(beta1 * m + (1 - beta1) * u)
//   m' = beta2 * m + (1 - beta2) * u
// LAMB(w, g, lr, scale, m, v, step) -> w', m', v'                     You et al. 2020, algorithm 2
//   m' = beta1 * m + (1 - beta1) * u        v' = beta2 * v + (1 - beta2) * u^2
//   r = m' / (1 - beta1^t) / (sqrt(v' / (1 - beta2^t)) + eps) + weight_decay * w
//   w' = w - lr * |w| / |r| * r             |.|: norm of the tensor; the ratio is 1 where one is 0
// LARS(w, g, lr, scale, m) -> w', m'                                  You et al. 2017, algorithm 1
//   a = lr * trust * |w| / (|u| + weight_decay * |w|)       a = lr where |w| or the divisor is 0
//   m' = momentum * m + a * (u + weight_decay * w)          w' = w - m'
//
// Memories begin as 0. lr, lr_factor, clip, a scale of NaN: as on the plate of optimizer.cc, and so
// are O1 (all memories have the shape of w), O2 and
// O4 attributes >= 0; alpha, beta1, beta2 in [0, 1)
// O5 momentum > 0 needs the input m, and without it there is none
#include "ops/optimizer/adaptive.h"

#include "ops/core/step_op.h"
#include "ops/optimizer/shape_rules.h"

namespace sardonyx::ops::optimizer {

namespace {

// --- Schema

const AttributeDef kEps = {"eps", "float: added to the divisor"};
const AttributeDef kBeta1 = {"beta1", "float, default 0.9: share of m in the step"};
const AttributeDef kMomentum = {"momentum", "float, default 0: share that m keeps"};

// --- Shape

// Input `slot` and its next value.
void infer_slot(InferContext& context, int slot) {
  if (!context.has(slot)) return;
  require_shape_of(context, slot, 0);
  context.set(slot - kFirstSlot + 1, context.type(slot));
}

void require_momentum(const InferContext& context, int slot) {
  const double momentum = context.node().get_float("momentum", 0);
  context.require((momentum > 0) == context.has(slot), "O5", "momentum {} {} the input m", momentum,
                  momentum > 0 ? "needs" : "doesn't go with");
}

void infer_adagrad(InferContext& context) {
  infer_update(context);
  require_not_negative(context, {"eps"});
  infer_slot(context, kFirstSlot);
}

void infer_rms_prop(InferContext& context) {
  infer_update(context);
  require_not_negative(context, {"eps", "momentum"});
  require_share(context, "alpha", 0.99);
  require_momentum(context, kFirstSlot + 2);
  for (int slot = kFirstSlot; slot < kFirstSlot + 3; ++slot) infer_slot(context, slot);
}

void infer_lion(InferContext& context) {
  infer_update(context);
  require_share(context, "beta1", 0.9);
  require_share(context, "beta2", 0.99);
  infer_slot(context, kFirstSlot);
}

void infer_lamb(InferContext& context) {
  infer_update(context);
  require_not_negative(context, {"eps"});
  require_share(context, "beta1", 0.9);
  require_share(context, "beta2", 0.999);
  for (int slot = kFirstSlot; slot < kFirstSlot + 2; ++slot) infer_slot(context, slot);
  require_scalar(context, kFirstSlot + 2, DType::kInt64);
}

void infer_lars(InferContext& context) {
  infer_update(context);
  require_not_negative(context, {"momentum", "trust"});
  require_momentum(context, kFirstSlot);
  infer_slot(context, kFirstSlot);
}

// --- Definition

OpDef update(const char* name, const char* doc, std::vector<Port> slots,
             std::vector<AttributeDef> attributes, std::function<void(InferContext&)> infer) {
  OpDef op = step_op(name, doc);
  op.inputs = {{"w"}, {"g"}, {"lr"}, {"scale"}};
  op.outputs = {{"w_next"}};
  for (const Port& slot : slots) {
    op.inputs.push_back(slot);
    op.outputs.push_back({slot.name + "_next", slot.presence});
  }
  op.attributes = {kWeightDecay, kLrFactor, kClipValue};
  op.attributes.insert(op.attributes.end(), attributes.begin(), attributes.end());
  op.infer = std::move(infer);
  op.aliases = [](const Node& node) {
    std::vector<std::pair<int, int>> pairs{{0, 0}};
    for (int slot = 1; slot < node.num_outputs(); ++slot) {
      if (node.output(slot) != nullptr) pairs.emplace_back(slot, slot + kFirstSlot - 1);
    }
    return pairs;
  };
  return op;
}

}  // namespace

StepNumbers step_numbers(const Node& node) {
  const bool lion = node.op == "Lion", lamb = node.op == "LAMB", rms_prop = node.op == "RMSprop";
  StepNumbers s;
  s.lr_factor = node.get_float("lr_factor", 1);
  s.clip_value = node.get_float("clip_value", 0);
  s.weight_decay = node.get_float("weight_decay", 0);
  s.momentum = node.get_float("momentum", 0);
  s.beta1 = node.get_float("beta1", 0.9);
  s.beta2 = rms_prop ? node.get_float("alpha", 0.99) : node.get_float("beta2", lion ? 0.99 : 0.999);
  s.eps = node.get_float("eps", lamb ? 1e-6 : rms_prop ? 1e-8 : 1e-10);
  s.trust = node.get_float("trust", 0.001);
  s.step_input = lamb ? kFirstSlot + 2 : -1;
  return s;
}

void register_adaptive(OpRegistry& ops) {
  const auto optional = [](const char* name) { return Port{name, Presence::kOptional}; };
  ops.add(update("Adagrad", "Adagrad: divides by the root of the sum of squares.", {{"h"}}, {kEps},
                 infer_adagrad));
  ops.add(update("RMSprop", "RMSprop: divides by the root of a moving mean of squares.",
                 {{"v"}, optional("mean"), optional("m")},
                 {{"alpha", "float, default 0.99: share that v and mean keep"}, kMomentum, kEps},
                 infer_rms_prop));
  ops.add(update("Lion", "Lion: moves by the sign of an average of gradients.", {{"m"}},
                 {kBeta1, {"beta2", "float, default 0.99: share that m keeps"}}, infer_lion));
  OpDef lamb = update("LAMB", "Adam with decoupled weight decay and a step of the tensor's norm.",
                      {{"m"}, {"v"}},
                      {{"beta1", "float, default 0.9: share that m keeps"},
                       {"beta2", "float, default 0.999: share that v keeps"},
                       kEps},
                      infer_lamb);
  lamb.inputs.push_back({"step"});
  ops.add(std::move(lamb));
  ops.add(update("LARS", "Gradient descent with a rate for each tensor, by its norm.",
                 {optional("m")}, {kMomentum, {"trust", "float, default 0.001: see the rule"}},
                 infer_lars));
}

}  // namespace sardonyx::ops::optimizer
