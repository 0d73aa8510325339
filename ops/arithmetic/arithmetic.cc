// Arithmetic: element by element, with numpy broadcasting.
//
// Add Sub Mul Div Pow    y = a + b, ... , a to the power b      Sum Mean    of any number of inputs
// Mod                    a - b floor(a / b), with fmod 1 a - b trunc(a / b)
// Neg Abs Sqrt Exp Log Reciprocal (1 / x)                    (Max, Min, PRelu: select.cc)
// sardonyx.PowGradBase(x, e, dy)      dy e x^(e - 1), 0 where e = 0, in the output's shape
// sardonyx.PowGradExponent(x, e, dy)  dy x^e log(x), 0 where x = 0 and e >= 0, likewise
// sardonyx.AbsGrad(x, dy)             dy sign(x), 0 at 0
//
// C1 shapes broadcast    C2 one element type (the exponent of Pow may have another)
// C3 Sqrt, Exp, Log, Reciprocal, Mean take floating types
// Integers wrap around; Div truncates towards zero, and division by zero is an error. In opset < 7
// the attribute `axis` says where input 1 starts in input 0 (kept as `legacy_axis`).
// Gradient summed over the broadcast axes. Sqrt, Exp, Reciprocal and Div read y; Sqrt at 0 has an
//          infinite gradient, which is reported, not hidden. Abs has 0 at 0, 0^0 = 1 has 0. Mod has
//          1 for a and - floor(a / b), - trunc(a / b) for b, at its jumps
//          too.
// Source   ONNX Add-14, Sub-14, Mul-14, Div-14, Pow-15, Mod-28, Sum-13, Mean-13, Neg-13, Abs-13,
//          Sqrt-13, Exp-13, Log-13, Reciprocal-13
#include "ops/core/broadcast.h"
#include "ops/core/definition.h"
#include "ops/core/elementwise.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/core/normalize.h"
#include "ops/core/one_type.h"

namespace sardonyx::ops {

void register_select(OpRegistry& ops);  // select.cc

namespace {

// --- Schema

const AttributeDef kLegacyAttribute = {
    kLegacyAxis, "int, private: axis of input 0 at which input 1 starts (opset < 7)",
    Writer::kRules};

// --- Shape

void infer_numbers(InferContext& c) {
  require_one_type(c, 0, c.num_inputs() - 1, "C2");
  require_numbers(c, 0, "C2");
  infer_broadcast(c, c.dtype(0), 0, c.num_inputs() - 1, "C1");
}

void infer_floats(InferContext& c) {
  require_floating(c, 0, "C3");
  infer_numbers(c);
}

void infer_pow(InferContext& c) { infer_broadcast(c, c.dtype(0), 0, 1, "C1"); }
void infer_pow_gradient(InferContext& c) { infer_broadcast(c, c.dtype(0), 0, 2, "C1"); }
void infer_abs_gradient(InferContext& c) { infer_same_shapes(c, 0, 1, "C1"); }

// --- Gradient

Value* scalar_like(GradientContext& c, double value) {
  return c.b().scalar(c.x(0)->type.dtype, value);
}

void add_gradient(GradientContext& c) {
  for (int i : {0, 1}) {
    if (c.wants(i)) c.set(i, reduce_to_input(c, c.dy(0), i));
  }
}

void sub_gradient(GradientContext& c) {
  if (c.wants(0)) c.set(0, reduce_to_input(c, c.dy(0), 0));
  // Negating after the sum touches fewer elements.
  if (c.wants(1)) c.set(1, c.b().op("Neg", {reduce_to_input(c, c.dy(0), 1)}));
}

// The operand as it stands in the node: with its legacy axis, where it is input 1.
Value* times_other(GradientContext& c, const char* op, int other) {
  graph::Attributes attributes;
  if (other == 1 && c.node().has(kLegacyAxis)) {
    attributes[kLegacyAxis] = c.node().get_int(kLegacyAxis, 0);
  }
  return c.b().op(op, {c.dy(0), c.x(other)}, attributes);
}

void mul_gradient(GradientContext& c) {
  if (c.wants(0)) c.set(0, reduce_to_input(c, times_other(c, "Mul", 1), 0));
  if (c.wants(1)) c.set(1, reduce_to_input(c, times_other(c, "Mul", 0), 1));
}

void div_gradient(GradientContext& c) {
  Value* quotient = times_other(c, "Div", 1);  // dy / b
  if (c.wants(0)) c.set(0, reduce_to_input(c, quotient, 0));
  if (!c.wants(1)) return;
  // db = - dy y / b
  Value* db = c.b().op("Mul", {quotient, c.y(0)});
  c.set(1, c.b().op("Neg", {reduce_to_input(c, db, 1)}));
}

void mod_gradient(GradientContext& c) {
  if (c.wants(0)) c.set(0, c.reduce_to(c.dy(0), c.x(0)));
  if (!c.wants(1)) return;
  // y - a = - b trunc(a / b)
  Value* steps = c.b().op("Div", {c.b().op("Sub", {c.y(0), c.x(0)}), c.x(1)});
  c.set(1, c.reduce_to(c.b().op("Mul", {c.dy(0), steps}), c.x(1)));
}

// The exponent, when it is one known number.
std::optional<double> known_exponent(GradientContext& c) {
  const Value* e = c.x(1);
  if (!e->is_constant() || e->data.numel() != 1) return std::nullopt;
  return e->data.as_double(0);
}

Value* pow_base_gradient(GradientContext& c) {
  const std::optional<double> e = known_exponent(c);
  if (e == 1) return c.dy(0);
  if (e == 2) return c.b().op("Mul", {c.dy(0), c.b().op("Mul", {c.x(0), scalar_like(c, 2)})});
  return c.b().own("PowGradBase", {c.x(0), c.x(1), c.dy(0)});
}

void pow_gradient(GradientContext& c) {
  if (c.node().has(kLegacyAxis)) {
    throw Error(
        "node {}: the gradient of Pow with the attribute axis (opset < 7) is not "
        "supported; re-export with opset 13 or later",
        c.node().label());
  }
  if (c.wants(0)) c.set(0, c.reduce_to(pow_base_gradient(c), c.x(0)));
  if (!c.wants(1)) return;
  Value* de = c.reduce_to(c.b().own("PowGradExponent", {c.x(0), c.x(1), c.dy(0)}), c.x(1));
  const DType dtype = c.x(1)->type.dtype;
  if (de->type.dtype != dtype) {
    de = c.b().op("Cast", {de}, {{"to", static_cast<int64_t>(dtype)}});
  }
  c.set(1, de);
}

void sum_gradient(GradientContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (c.wants(i)) c.set(i, c.reduce_to(c.dy(0), c.x(i)));
  }
}

void mean_gradient(GradientContext& c) {
  Value* share = c.b().op("Mul", {c.dy(0), scalar_like(c, 1.0 / c.num_inputs())});
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (c.wants(i)) c.set(i, c.reduce_to(share, c.x(i)));
  }
}

void neg_gradient(GradientContext& c) { c.set(0, c.b().op("Neg", {c.dy(0)})); }
void abs_gradient(GradientContext& c) { c.set(0, c.b().own("AbsGrad", {c.x(0), c.dy(0)})); }
void exp_gradient(GradientContext& c) { c.set(0, c.b().op("Mul", {c.dy(0), c.y(0)})); }
void log_gradient(GradientContext& c) { c.set(0, c.b().op("Div", {c.dy(0), c.x(0)})); }

void sqrt_gradient(GradientContext& c) {  // dy / (2 y)
  c.set(0, c.b().op("Div", {c.dy(0), c.b().op("Mul", {c.y(0), scalar_like(c, 2)})}));
}

void reciprocal_gradient(GradientContext& c) {  // - dy y^2
  Value* square = c.b().op("Mul", {c.y(0), c.y(0)});
  c.set(0, c.b().op("Neg", {c.b().op("Mul", {c.dy(0), square})}));
}

void abs_second(GradientContext& c) {
  if (c.wants(0)) c.set(0, c.b().filled_like(c.x(0), 0));
  if (c.wants(1)) c.set(1, c.b().own("AbsGrad", {c.x(0), c.dy(0)}));
}

// --- Definition

struct Entry {
  const char* name;
  const char* doc;
  std::vector<int> since;
  void (*infer)(InferContext&);
  void (*rule)(GradientContext&);
};

OpDef standard(const Entry& entry, std::vector<Port> inputs) {
  OpDef op;
  op.name = entry.name;
  op.doc = entry.doc;
  op.since = entry.since;
  op.inputs = std::move(inputs);
  op.outputs = {{"Y"}};
  op.infer = entry.infer;
  op.gradient = gradient(entry.rule);
  op.batch = broadcast_role;
  op.axes = AxisUse::kElementwise;
  return op;
}

OpDef backward(const char* name, const char* doc, std::vector<Port> inputs, InferRule infer,
               Gradient rule) {
  OpDef op = own_op(name, doc, std::move(inputs), {{"dx"}}, infer);
  op.gradient = std::move(rule);
  op.batch = broadcast_role;
  return op;
}

const std::vector<Entry> kUnary = {
    {"Neg", "y = -x.", {1, 6, 13}, infer_numbers, neg_gradient},
    {"Abs", "y = |x|.", {1, 6, 13}, infer_numbers, abs_gradient},
    {"Sqrt", "y = square root of x.", {1, 6, 13}, infer_floats, sqrt_gradient},
    {"Exp", "y = exp(x).", {1, 6, 13}, infer_floats, exp_gradient},
    {"Log", "y = natural logarithm of x.", {1, 6, 13}, infer_floats, log_gradient},
    {"Reciprocal", "y = 1 / x.", {1, 6, 13}, infer_floats, reciprocal_gradient},
};

const std::vector<Entry> kBinary = {
    {"Add", "y = a + b.", {1, 6, 7, 13, 14}, infer_numbers, add_gradient},
    {"Sub", "y = a - b.", {1, 6, 7, 13, 14}, infer_numbers, sub_gradient},
    {"Mul", "y = a b.", {1, 6, 7, 13, 14}, infer_numbers, mul_gradient},
    {"Div", "y = a / b; integers truncate.", {1, 6, 7, 13, 14}, infer_numbers, div_gradient},
    {"Pow", "y = x to the power e.", {1, 7, 12, 13, 15}, infer_pow, pow_gradient},
};

const std::vector<Entry> kVariadic = {
    {"Sum", "Sum of the inputs.", {1, 6, 8, 13}, infer_numbers, sum_gradient},
    {"Mean", "Mean of the inputs.", {1, 6, 8, 13}, infer_floats, mean_gradient},
};

}  // namespace

void register_arithmetic(OpRegistry& ops) {
  for (const Entry& entry : kUnary) {
    OpDef op = standard(entry, {{"X"}});
    if (op.name == "Neg" || op.name == "Abs") op.narrow = Narrow::kFollows;
    ops.add(std::move(op));
  }
  for (const Entry& entry : kBinary) {
    OpDef op = standard(entry, {{"A"}, {"B"}});
    op.attributes = {kLegacyAttribute};
    op.normalize = normalize_broadcast;
    op.preprocessing = op.name != "Pow";
    op.adds = op.name == "Add";
    op.cheap = true;
    if (op.name != "Pow") op.narrow = Narrow::kFollows;
    ops.add(std::move(op));
  }
  OpDef mod =
      standard({"Mod", "y = remainder of a / b.", {10, 13, 28}, infer_numbers, mod_gradient},
               {{"A"}, {"B"}});
  mod.attributes = {{"fmod", "int, default 0: 1 gives y the sign of a, 0 that of b"}};
  ops.add(std::move(mod));
  for (const Entry& entry : kVariadic) {
    OpDef op = standard(entry, {{"data", Presence::kVariadic}});
    op.adds = op.name == "Sum";
    op.narrow = Narrow::kFollows;
    ops.add(std::move(op));
  }
  ops.add(backward("AbsGrad", "dy sign(x), 0 at 0.", {{"x"}, {"dy"}}, infer_abs_gradient,
                   gradient(abs_second)));
  ops.add(backward("PowGradBase", "dy e x^(e - 1), 0 where e = 0.", {{"x"}, {"e"}, {"dy"}},
                   infer_pow_gradient, not_differentiable("second derivative of Pow")));
  ops.add(backward("PowGradExponent", "dy x^e log(x), 0 where x = 0 and e >= 0.",
                   {{"x"}, {"e"}, {"dy"}}, infer_pow_gradient,
                   not_differentiable("second derivative of Pow")));
  register_select(ops);
}

}  // namespace sardonyx::ops
