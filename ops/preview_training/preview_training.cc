// ai.onnx.preview.training: one step of an optimizer for n tensors, as ordinary arithmetic. The
// runtime's own updates are in ops/optimizer: epsilon and weight decay stand elsewhere there.
//
// u = g + norm_coefficient * x, r the rate, t the number of steps before
// Momentum(r, t, x.., g.., v..) -> x'.., v'..
//   v' = alpha * v + (t > 0 ? beta : 1) * u
//   x' = x - r * v'       mode nesterov: x - r * (u + alpha * v')
// Adagrad(r, t, x.., g.., h..) -> x'.., h'..
//   h' = h + u^2          x' = x - r / (1 + t * decay_factor) * u / (sqrt(h') + epsilon)
// Adam(r, t, x.., g.., v.., h..) -> x'.., v'.., h'..
//   v' = alpha * v + (1 - alpha) * u        h' = beta * h + (1 - beta) * u^2
//   a = t > 0 ? r * sqrt(1 - beta^t) / (1 - alpha^t) : r
//   x' = (1 - norm_coefficient_post) * (x - a * v' / (sqrt(h') + epsilon))
//
// P1 r is a floating scalar, t one of int64
// P2 behind them stand n tensors of each kind, and there are n outputs of each
// P3 x, g, v, h of one index have one floating type
// P4 Momentum: alpha, beta, norm_coefficient are given, mode is standard or nesterov
// Gradient that of the nodes it consists of; none for t.
// Source   ONNX ai.onnx.preview.training Adagrad-1, Adam-1, Momentum-1
#include "ops/preview_training/preview_training.h"

#include "ops/core/infer.h"
#include "ops/core/one_type.h"

namespace sardonyx::ops {

namespace preview_training {

namespace {

enum Input : int { kRate, kStep, kTensors };

// --- Shape

// `kinds` of tensors come in, all but the gradients go out.
void infer_step(InferContext& c, int kinds) {
  c.require(graph::is_floating(c.dtype(kRate)) && c.rank(kRate) <= 0, "P1",
            "the rate has type {}, expected a floating scalar", c.type(kRate).str());
  c.require(c.dtype(kStep) == DType::kInt64 && c.rank(kStep) <= 0, "P1",
            "the step has type {}, expected an int64 scalar", c.type(kStep).str());
  const int tensors = c.num_inputs() - kTensors, count = tensors / kinds;
  c.require(count >= 1 && tensors % kinds == 0 && c.num_outputs() == count * (kinds - 1), "P2",
            "{} tensors and {} outputs: expected {} and {} for each that is updated", tensors,
            c.num_outputs(), kinds, kinds - 1);
  for (int i = 0; i < count; ++i) {
    const int x = kTensors + i;
    c.require(graph::is_floating(c.dtype(x)), "P3", "input {} has type {}, expected a floating one",
              x, c.type(x).str());
    for (int kind = 1; kind < kinds; ++kind) {
      const int other = x + kind * count;
      require_type_of(c, other, x, "P3");
      const bool known = c.type(x).is_static() && c.type(other).is_static();
      c.require(!known || c.type(x).shape() == c.type(other).shape(), "P3",
                "input {} has type {}, but input {} has type {}", other, c.type(other).str(), x,
                c.type(x).str());
      c.set(i + (kind - 1) * count, c.type(x));
    }
  }
}

void infer_momentum(InferContext& c) {
  for (const char* name : {"alpha", "beta", "norm_coefficient"}) {
    c.require(c.node().has(name), "P4", "attribute {} is not given", name);
  }
  const std::string mode = c.node().get_string("mode", "");
  c.require(mode == "standard" || mode == "nesterov", "P4",
            "mode is '{}', expected standard or nesterov", mode);
  infer_step(c, 3);
}

// --- Parts

// Arithmetic on tensors of one of the n indices.
class Parts {
 public:
  Parts(ComposeContext& c, int kinds, int index)
      : c_(c), count_((static_cast<int>(c.inputs().size()) - kTensors) / kinds), index_(index) {}

  int count() const { return count_; }
  Value* input(int kind) const { return c_.x(kTensors + kind * count_ + index_); }
  void set(int kind, Value* y) {
    const int output = kind * count_ + index_;
    if (c_.wants(output)) c_.set(output, y);
  }

  double attribute(const char* name, double fallback = 0) const {
    return c_.node().get_float(name, fallback);
  }
  Value* number(double value) { return c_.b().scalar(dtype(), value); }
  Value* add(Value* a, Value* b) { return c_.b().op("Add", {a, b}); }
  Value* sub(Value* a, Value* b) { return c_.b().op("Sub", {a, b}); }
  Value* mul(Value* a, Value* b) { return c_.b().op("Mul", {a, b}); }
  Value* scaled(double factor, Value* a) { return mul(number(factor), a); }
  Value* divided(Value* a, Value* b) { return c_.b().op("Div", {a, b}); }
  Value* root(Value* a) { return c_.b().op("Sqrt", {a}); }
  Value* as_tensors(Value* a) {
    if (a->type.dtype == dtype()) return a;
    return c_.b().op("Cast", {a}, {{"to", static_cast<int64_t>(dtype())}});
  }

  // g + norm_coefficient * x
  Value* gradient() { return add(input(1), scaled(attribute("norm_coefficient"), input(0))); }
  Value* rate() { return as_tensors(c_.x(kRate)); }
  Value* step(DType dtype) {
    return c_.b().op("Cast", {c_.x(kStep)}, {{"to", static_cast<int64_t>(dtype)}});
  }
  // t > 0 ? later : first
  Value* after_first(Value* later, Value* first) {
    Value* zero = c_.b().scalar(DType::kInt64, 0);
    return c_.b().op("Where", {c_.b().op("Greater", {c_.x(kStep), zero}), later, first});
  }
  // sqrt(1 - beta^t) / (1 - alpha^t), in double; t = 1 where it is 0.
  Value* adam_correction(double alpha, double beta) {
    OpBuilder& b = c_.b();
    const auto real = [&](double value) { return b.scalar(DType::kFloat64, value); };
    Value* t = b.op("Max", {step(DType::kFloat64), real(1)});
    const auto rest = [&](double share) {
      return b.op("Sub", {real(1), b.op("Pow", {real(share), t})});
    };
    return as_tensors(b.op("Div", {b.op("Sqrt", {rest(beta)}), rest(alpha)}));
  }

 private:
  DType dtype() const { return input(0)->type.dtype; }

  ComposeContext& c_;
  int count_, index_;
};

template <class Rule>
void for_each_tensor(ComposeContext& c, int kinds, const Rule& rule) {
  const int count = Parts(c, kinds, 0).count();
  for (int i = 0; i < count; ++i) rule(Parts(c, kinds, i));
}

}  // namespace

void write_momentum(ComposeContext& c) {
  const bool nesterov = c.node().get_string("mode", "") == "nesterov";
  for_each_tensor(c, 3, [&](Parts p) {
    Value* u = p.gradient();
    Value* share = p.after_first(p.number(p.attribute("beta")), p.number(1));
    Value* v = p.add(p.scaled(p.attribute("alpha"), p.input(2)), p.mul(share, u));
    Value* move = nesterov ? p.add(u, p.scaled(p.attribute("alpha"), v)) : v;
    p.set(0, p.sub(p.input(0), p.mul(p.rate(), move)));
    p.set(1, v);
  });
}

void write_adagrad(ComposeContext& c) {
  for_each_tensor(c, 3, [&](Parts p) {
    Value* u = p.gradient();
    Value* h = p.add(p.input(2), p.mul(u, u));
    Value* step = p.step(p.input(0)->type.dtype);
    Value* slower = p.add(p.number(1), p.scaled(p.attribute("decay_factor"), step));
    Value* rate = p.divided(p.rate(), slower);
    Value* divisor = p.add(p.root(h), p.number(p.attribute("epsilon", 1e-6)));
    p.set(0, p.sub(p.input(0), p.divided(p.mul(rate, u), divisor)));
    p.set(1, h);
  });
}

void write_adam(ComposeContext& c) {
  for_each_tensor(c, 4, [&](Parts p) {
    const double alpha = p.attribute("alpha", 0.9), beta = p.attribute("beta", 0.999);
    Value* u = p.gradient();
    Value* v = p.add(p.scaled(alpha, p.input(2)), p.scaled(1 - alpha, u));
    Value* h = p.add(p.scaled(beta, p.input(3)), p.scaled(1 - beta, p.mul(u, u)));
    Value* rate = p.mul(p.rate(), p.after_first(p.adam_correction(alpha, beta), p.number(1)));
    Value* divisor = p.add(p.root(h), p.number(p.attribute("epsilon", 1e-6)));
    Value* x = p.sub(p.input(0), p.divided(p.mul(rate, v), divisor));
    p.set(0, p.scaled(1 - p.attribute("norm_coefficient_post"), x));
    p.set(1, v);
    p.set(2, h);
  });
}

namespace {

// --- Definition

OpDef define(const char* name, const char* doc, std::function<void(InferContext&)> infer,
             const ComposeRule& rule) {
  OpDef op;
  op.domain = kPreviewDomain;
  op.name = name;
  op.doc = doc;
  op.inputs = {{"R"},
               {"T", Presence::kRequired, "the number of steps is an integer"},
               {"inputs", Presence::kVariadic}};
  op.outputs = {{"outputs", Presence::kVariadic}};
  op.infer = std::move(infer);
  compose(op, rule);
  return op;
}

const AttributeDef kNormCoefficient{"norm_coefficient", "float, default 0: of x in the gradient"};
const AttributeDef kEpsilon{"epsilon", "float, default 1e-6: added to the divisor"};

}  // namespace

}  // namespace preview_training

void register_preview_training(OpRegistry& ops) {
  using namespace preview_training;
  OpDef momentum = define("Momentum", "A step of gradient descent with momentum, of n tensors.",
                          infer_momentum, write_momentum);
  momentum.attributes = {{"alpha", "float: share that v keeps"},
                         {"beta", "float: share of the gradient, but in the first step"},
                         {"mode", "string: standard or nesterov"},
                         kNormCoefficient};
  ops.add(std::move(momentum));
  OpDef adagrad = define(
      "Adagrad", "A step of Adagrad, of n tensors.", [](InferContext& c) { infer_step(c, 3); },
      write_adagrad);
  adagrad.attributes = {
      {"decay_factor", "float, default 0: of the rate by steps"}, kEpsilon, kNormCoefficient};
  ops.add(std::move(adagrad));
  OpDef adam = define(
      "Adam", "A step of Adam, of n tensors.", [](InferContext& c) { infer_step(c, 4); },
      write_adam);
  adam.attributes = {{"alpha", "float, default 0.9: share that v keeps"},
                     {"beta", "float, default 0.999: share that h keeps"},
                     kEpsilon,
                     kNormCoefficient,
                     {"norm_coefficient_post", "float, default 0: share that x' loses"}};
  ops.add(std::move(adam));
}

}  // namespace sardonyx::ops
