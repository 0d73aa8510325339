// Activations: one number in, one number out, with their gradient operators.
//
// Relu       max(x, 0)                          ReluGrad(y, dy)       dy where y > 0, else 0
// Sigmoid    1 / (1 + exp(-x))                  SigmoidGrad(y, dy)    dy y (1 - y)
// Tanh       tanh(x)                            TanhGrad(y, dy)       dy (1 - y^2)
// LeakyRelu  x where x >= 0, else alpha x       LeakyReluGrad(x, dy)  dy where x > 0, else alpha dy
// Elu        x where x > 0, else                EluGrad(x, dy)        dy where x > 0, else
//            alpha (exp(x) - 1)                                       dy alpha exp(x)
// Softplus   log(1 + exp(x))                    (nodes: dy Sigmoid(x))
// Clip       min(max(x, min), max)              ClipGrad(x, dy, min, max)  dy where min <= x <= max
//
// Inputs   x of any shape; Clip: min, max of one element (optional)       Output  y like x
// C1 x is floating (Clip takes integers too)    C2 x, y and dy of a gradient have one shape
// C3 min and max have one element
// Gradient Relu, Sigmoid, Tanh and LeakyRelu with alpha > 0 read y, not x: x may be overwritten.
//          At a kink: Relu 0, LeakyRelu alpha, Clip 1 on its bounds. NaN stays NaN.
// Source   ONNX Relu-14, Sigmoid-13, Tanh-13, LeakyRelu-16, Elu-22, Softplus-22, Clip-13
#include "ops/core/elementwise.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/core/normalize.h"

namespace sardonyx::ops {

namespace {

// --- Schema

constexpr double kLeakyAlpha = 0.01;
constexpr double kEluAlpha = 1.0;

void drop_consumed_inputs(NormalizeContext& c) { c.node().attributes.erase("consumed_inputs"); }

void normalize_clip(NormalizeContext& c) {
  drop_consumed_inputs(c);
  c.attribute_to_input("min", 1);
  c.attribute_to_input("max", 2);
}

AttributeDef alpha_attribute(double fallback) {
  return {"alpha", fmt::format("float, default {}: slope or scale below zero", fallback)};
}

// --- Shape

void infer_floating(InferContext& c) {
  require_floating(c, 0, "C1");
  infer_same(c);
}

void infer_pair(InferContext& c) {
  require_floating(c, 0, "C1");
  infer_same_shapes(c, 0, 1, "C2");
}

void require_bounds(const InferContext& c, int min, int max) {
  for (int i : {min, max}) {
    if (!c.has(i) || !c.type(i).is_static()) continue;
    c.require(c.type(i).numel() == 1, "C3", "bound {} has type {}, expected one element",
              i == min ? "min" : "max", c.type(i).str());
  }
}

void infer_clip(InferContext& c) {
  require_bounds(c, 1, 2);
  infer_same(c);
}

void infer_clip_grad(InferContext& c) {
  require_bounds(c, 2, 3);
  infer_pair(c);
}

// --- Gradient

graph::Attributes alpha_of(const Node& node, double fallback) {
  return {{"alpha", node.get_float("alpha", fallback)}};
}

void relu_gradient(GradientContext& c) { c.set(0, c.b().own("ReluGrad", {c.y(0), c.dy(0)})); }
void sigmoid_gradient(GradientContext& c) { c.set(0, c.b().own("SigmoidGrad", {c.y(0), c.dy(0)})); }
void tanh_gradient(GradientContext& c) { c.set(0, c.b().own("TanhGrad", {c.y(0), c.dy(0)})); }

void leaky_relu_gradient(GradientContext& c) {
  // For a positive slope y has the sign of x, and reading it frees x.
  const bool same_sign = c.node().get_float("alpha", kLeakyAlpha) > 0;
  c.set(0, c.b().own("LeakyReluGrad", {same_sign ? c.y(0) : c.x(0), c.dy(0)},
                     alpha_of(c.node(), kLeakyAlpha)));
}

void elu_gradient(GradientContext& c) {
  c.set(0, c.b().own("EluGrad", {c.x(0), c.dy(0)}, alpha_of(c.node(), kEluAlpha)));
}

void softplus_gradient(GradientContext& c) {
  c.set(0, c.b().op("Mul", {c.dy(0), c.b().op("Sigmoid", {c.x(0)})}));
}

void clip_gradient(GradientContext& c) {
  if (c.wants(0)) c.set(0, c.b().own("ClipGrad", {c.x(0), c.dy(0), c.x(1), c.x(2)}));
}

// Second derivatives. Those of the piecewise linear functions are zero but for the factor dy.
void masked_second(GradientContext& c) {
  const Node& node = c.node();
  if (c.wants(0)) c.set(0, c.b().filled_like(c.x(0), 0));
  if (c.wants(1)) {
    c.set(1, c.b().own(node.op, {c.x(0), c.dy(0), c.x(2), c.x(3)},
                       graph::Attributes(node.attributes.begin(), node.attributes.end())));
  }
}

void sigmoid_second(GradientContext& c) {
  if (c.wants(1)) c.set(1, c.b().own("SigmoidGrad", {c.x(0), c.dy(0)}));
  if (!c.wants(0)) return;
  // d/dy of dy y (1 - y) = dy (1 - 2 y)
  const DType dtype = c.x(0)->type.dtype;
  Value* twice = c.b().op("Mul", {c.x(0), c.b().scalar(dtype, 2)});
  Value* slope = c.b().op("Sub", {c.b().scalar(dtype, 1), twice});
  c.set(0, c.b().op("Mul", {c.b().op("Mul", {c.dy(0), c.x(1)}), slope}));
}

void tanh_second(GradientContext& c) {
  if (c.wants(1)) c.set(1, c.b().own("TanhGrad", {c.x(0), c.dy(0)}));
  if (!c.wants(0)) return;
  Value* slope = c.b().op("Mul", {c.x(0), c.b().scalar(c.x(0)->type.dtype, -2)});
  c.set(0, c.b().op("Mul", {c.b().op("Mul", {c.dy(0), c.x(1)}), slope}));
}

// --- Definition

OpDef forward(std::string name, std::string doc, std::vector<int> since, Gradient rule) {
  OpDef op;
  op.name = std::move(name);
  op.doc = std::move(doc);
  op.since = std::move(since);
  op.inputs = {{"X"}};
  op.outputs = {{"Y"}};
  op.normalize = drop_consumed_inputs;
  op.infer = infer_floating;
  op.gradient = std::move(rule);
  op.batch = rows;
  op.cells_read = [](const Node&, const std::vector<int64_t>& needed) { return needed; };
  return op;
}

OpDef backward(std::string name, std::string doc, std::string first, Gradient rule) {
  OpDef op;
  op.domain = kDomain;
  op.name = std::move(name);
  op.doc = std::move(doc);
  op.inputs = {{std::move(first)}, {"dy"}};
  op.outputs = {{"dx"}};
  op.infer = infer_pair;
  op.gradient = std::move(rule);
  op.batch = rows_of_all;
  return op;
}

OpDef clip() {
  OpDef op =
      forward("Clip", "y = min(max(x, min), max).", {1, 6, 11, 12, 13}, gradient(clip_gradient));
  op.inputs = {
      {"X"}, {"min", Presence::kOptional, "a bound"}, {"max", Presence::kOptional, "a bound"}};
  op.normalize = normalize_clip;
  op.infer = infer_clip;
  return op;
}

OpDef clip_grad() {
  OpDef op =
      backward("ClipGrad", "dy where min <= x <= max, else 0.", "x", gradient(masked_second));
  op.inputs.push_back({"min", Presence::kOptional, "a bound"});
  op.inputs.push_back({"max", Presence::kOptional, "a bound"});
  op.infer = infer_clip_grad;
  return op;
}

OpDef with_alpha(OpDef op, double fallback) {
  op.attributes = {alpha_attribute(fallback)};
  return op;
}

}  // namespace

void register_activation(OpRegistry& ops) {
  ops.add(forward("Relu", "y = max(x, 0).", {1, 6, 13, 14}, gradient(relu_gradient)));
  ops.add(backward("ReluGrad", "dy where y > 0, else 0.", "y", gradient(masked_second)));
  ops.add(forward("Sigmoid", "y = 1 / (1 + exp(-x)).", {1, 6, 13}, gradient(sigmoid_gradient)));
  ops.add(backward("SigmoidGrad", "dy y (1 - y).", "y", gradient(sigmoid_second)));
  ops.add(forward("Tanh", "y = tanh(x).", {1, 6, 13}, gradient(tanh_gradient)));
  ops.add(backward("TanhGrad", "dy (1 - y^2).", "y", gradient(tanh_second)));
  ops.add(with_alpha(forward("LeakyRelu", "y = x where x >= 0, else alpha x.", {1, 6, 16},
                             gradient(leaky_relu_gradient)),
                     kLeakyAlpha));
  ops.add(with_alpha(
      backward("LeakyReluGrad", "dy where x > 0, else alpha dy.", "x", gradient(masked_second)),
      kLeakyAlpha));
  ops.add(with_alpha(forward("Elu", "y = x where x > 0, else alpha (exp(x) - 1).", {1, 6, 22},
                             gradient(elu_gradient)),
                     kEluAlpha));
  ops.add(with_alpha(backward("EluGrad", "dy where x > 0, else dy alpha exp(x).", "x",
                              not_differentiable("second derivative of Elu")),
                     kEluAlpha));
  ops.add(forward("Softplus", "y = log(1 + exp(x)).", {1, 22}, gradient(softplus_gradient)));
  ops.add(clip());
  ops.add(clip_grad());
}

}  // namespace sardonyx::ops
