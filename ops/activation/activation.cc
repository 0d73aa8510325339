// Activations: one number in (SwiGLU: two), one out, with their gradient operators F -> FGrad.
//
// Relu       max(x, 0)                          ReluGrad(y, dy)         dy where y > 0, else 0
// Sigmoid    1 / (1 + exp(-x))                  SigmoidGrad(y, dy)      dy y (1 - y)
// Tanh       tanh(x)                            TanhGrad(y, dy)         dy (1 - y^2)
// LeakyRelu  x where x >= 0, else alpha x       LeakyReluGrad(x, dy)    dy, alpha dy where x <= 0
// Elu        x where x > 0, else                EluGrad(x, dy)          dy where x > 0, else
//            alpha (exp(x) - 1)                                         dy alpha exp(x)
// Selu       gamma Elu(x)                       SeluGrad(x, dy)         dy gamma Elu'(x)
// Celu       alpha Elu(x / alpha) with alpha 1  CeluGrad(x, dy)         dy Elu'(x / alpha)
// Softplus   log(1 + exp(x))                    (nodes: dy Sigmoid(x))
// Softsign   x / (1 + |x|)                      SoftsignGrad(x, dy)     dy / (1 + |x|)^2
// Erf        the error function                 ErfGrad(x, dy)          dy 2 / sqrt(pi) exp(-x^2)
// Gelu       x (1 + erf(x / sqrt(2))) / 2, approximate "tanh": x (1 + tanh(sqrt(2 / pi)
//            (x + 0.044715 x^3))) / 2           GeluGrad(x, dy)         dy Gelu'(x)
// Swish      x Sigmoid(alpha x)                 SwishGrad(x, dy)        dy Swish'(x)
// Mish       x tanh(Softplus(x))                MishGrad(x, dy)         dy Mish'(x)
// HardSwish  x max(0, min(1, x / 6 + 1 / 2))    HardSwishGrad(x, dy)    dy (x / 3 + 1 / 2), |x| < 3
// HardSigmoid  max(0, min(1, alpha x + beta))   HardSigmoidGrad(y, dy)  dy alpha where 0 < y < 1
// ThresholdedRelu  x where x > alpha, else 0    ThresholdedReluGrad(x, dy)  dy where x > alpha
// Shrink     x + bias where x < -lambd,         ShrinkGrad(x, dy)       0 where |x| <= lambd,
//            x - bias where x > lambd, else 0                           else dy
// SwiGLU     a Sigmoid(alpha a) b               (nodes: SwishGrad(a, dy b), dy Swish(a))
// Clip       min(max(x, min), max)              ClipGrad(x, dy, min, max)  dy where min <= x <= max
//
// Inputs   x of any shape; Clip: min, max of one element (optional)       Output  y like x
// C1 x is floating (Clip and Shrink take integers too)
// C2 x, y and dy of a gradient have one shape, a and b of SwiGLU too
// C3 min and max are numbers of the type of x    C4 approximate is "none" or "tanh"
// Gradient where it reads y, and for LeakyRelu with alpha > 0, x may be overwritten. At a kink:
//          Relu and Shrink 0, LeakyRelu alpha, Clip 1 on its bounds, HardSwish that of
//          x HardSigmoid(x) (0 at -3, 1 at 3). NaN stays NaN; a slope that vanishes at infinity is
//          0 there.
// Source   ONNX Relu-14, Sigmoid-13, Tanh-13, LeakyRelu-16, Elu-22, Selu-22, Celu-28, Softplus-22,
//          Softsign-22, Erf-13, Gelu-20, Swish-24, Mish-22, HardSwish-22, HardSigmoid-22,
//          ThresholdedRelu-22, Shrink-9, SwiGLU-28, Clip-13
#include "ops/activation/activation.h"
#include "ops/core/definition.h"
#include "ops/core/elementwise.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/core/normalize.h"
#include "ops/core/one_type.h"

namespace sardonyx::ops {

namespace {

// --- Schema

using activation::Parameter;
using Parameters = std::vector<Parameter>;

void normalize_clip(NormalizeContext& c) {
  c.attribute_to_input("min", 1);
  c.attribute_to_input("max", 2);
}

// Selu-1 had fewer digits.
void normalize_selu(NormalizeContext& c) {
  if (c.opset() >= 6) return;
  c.node().attributes.emplace("alpha", 1.6732);
  c.node().attributes.emplace("gamma", 1.0507);
}

std::vector<AttributeDef> attribute_defs(const Parameters& parameters) {
  std::vector<AttributeDef> defs;
  for (const Parameter& p : parameters) {
    defs.push_back({p.name, fmt::format("float, default {}: {}", p.fallback, p.doc)});
  }
  return defs;
}

const AttributeDef kApproximateDef = {
    activation::kApproximate, "string, default none: none computes with erf, tanh with tanh"};

// --- Shape

void infer_floating(InferContext& c) {
  require_floating(c, 0, "C1");
  infer_same(c);
}

void infer_numbers(InferContext& c) {
  require_numbers(c, 0, "C1");
  infer_same(c);
}

void infer_pair(InferContext& c) {
  require_floating(c, 0, "C1");
  infer_same_shapes(c, 0, 1, "C2");
}

void require_approximate(const InferContext& c) {
  const std::string form = c.node().get_string(activation::kApproximate, "none");
  c.require(form == "none" || form == "tanh", "C4", "approximate is '{}', expected none or tanh",
            form);
}

void infer_gelu(InferContext& c) {
  require_approximate(c);
  infer_floating(c);
}

void infer_swiglu(InferContext& c) {
  require_one_type(c, 0, 1, "C1");
  infer_pair(c);
}

void infer_gelu_grad(InferContext& c) {
  require_approximate(c);
  infer_pair(c);
}

void require_bounds(const InferContext& c, int min, int max) {
  for (int i : {min, max}) {
    require_type_of_number(c, i, 0, "C3");
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

// What FGrad reads beside dy.
enum class Reads : uint8_t { kX, kY };

graph::Attributes written_out(const Node& node, const Parameters& parameters) {
  graph::Attributes attributes;
  for (const Parameter& p : parameters) attributes[p.name] = node.get_float(p.name, p.fallback);
  return attributes;
}

// FGrad(x or y, dy) with F's attributes.
Gradient to_grad(Reads reads, Parameters parameters) {
  return gradient([reads, parameters](GradientContext& c) {
    c.set(0, c.b().own(c.node().op + "Grad", {reads == Reads::kX ? c.x(0) : c.y(0), c.dy(0)},
                       written_out(c.node(), parameters)));
  });
}

void leaky_relu_gradient(GradientContext& c) {
  // For a positive slope y has the sign of x, and reading it frees x.
  const Parameter& alpha = activation::kLeakyAlpha;
  const bool same_sign = c.node().get_float(alpha.name, alpha.fallback) > 0;
  c.set(0, c.b().own("LeakyReluGrad", {same_sign ? c.y(0) : c.x(0), c.dy(0)},
                     written_out(c.node(), {alpha})));
}

void gelu_gradient(GradientContext& c) {
  const std::string form = c.node().get_string(activation::kApproximate, "none");
  c.set(0, c.b().own("GeluGrad", {c.x(0), c.dy(0)}, {{activation::kApproximate, form}}));
}

void softplus_gradient(GradientContext& c) {
  c.set(0, c.b().op("Mul", {c.dy(0), c.b().op("Sigmoid", {c.x(0)})}));
}

void swiglu_gradient(GradientContext& c) {
  const graph::Attributes alpha = written_out(c.node(), {activation::kSwishAlpha});
  if (c.wants(0)) {
    c.set(0, c.b().own("SwishGrad", {c.x(0), c.b().op("Mul", {c.dy(0), c.x(1)})}, alpha));
  }
  if (c.wants(1)) c.set(1, c.b().op("Mul", {c.dy(0), c.b().op("Swish", {c.x(0)}, alpha)}));
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
  op.infer = infer_floating;
  op.gradient = std::move(rule);
  op.batch = rows;
  op.axes = AxisUse::kElementwise;
  op.cheap = true;
  op.narrow = Narrow::kFollows;
  op.cells_read = [](const Node&, const std::vector<int64_t>& needed) { return needed; };
  return op;
}

OpDef backward(std::string name, std::string doc, Reads reads, Gradient rule) {
  OpDef op = own_op(std::move(name), std::move(doc), {{reads == Reads::kX ? "x" : "y"}, {"dy"}},
                    {{"dx"}}, infer_pair);
  op.gradient = std::move(rule);
  op.batch = rows_of_all;
  op.narrow = Narrow::kFollows;
  return op;
}

struct Entry {
  const char* name;
  const char* doc;
  std::vector<int> since;
  Reads reads;
  const char* grad_doc;
  void (*second)(GradientContext&);  // rule of FGrad; nullptr: it has none
  Parameters parameters = {};
};

const std::vector<Entry> kEntries = {
    {"Relu", "y = max(x, 0).", {1, 6, 13, 14}, Reads::kY, "dy where y > 0, else 0.", masked_second},
    {"Sigmoid", "y = 1 / (1 + exp(-x)).", {1, 6, 13}, Reads::kY, "dy y (1 - y).", sigmoid_second},
    {"Tanh", "y = tanh(x).", {1, 6, 13}, Reads::kY, "dy (1 - y^2).", tanh_second},
    {"LeakyRelu",
     "y = x where x >= 0, else alpha x.",
     {1, 6, 16},
     Reads::kX,
     "dy where x > 0, else alpha dy.",
     masked_second,
     {activation::kLeakyAlpha}},
    {"Elu",
     "y = x where x > 0, else alpha (exp(x) - 1).",
     {1, 6, 22},
     Reads::kX,
     "dy where x > 0, else dy alpha exp(x).",
     nullptr,
     {activation::kEluAlpha}},
    {"Selu",
     "y = gamma x where x > 0, else gamma alpha (exp(x) - 1).",
     {1, 6, 22},
     Reads::kX,
     "dy gamma where x > 0, else dy gamma alpha exp(x).",
     nullptr,
     {activation::kSeluAlpha, activation::kSeluGamma}},
    {"Celu",
     "y = x where x > 0, else alpha (exp(x / alpha) - 1).",
     {12, 28},
     Reads::kX,
     "dy where x > 0, else dy exp(x / alpha).",
     nullptr,
     {activation::kCeluAlpha}},
    {"Softsign", "y = x / (1 + |x|).", {1, 22}, Reads::kX, "dy / (1 + |x|)^2.", nullptr},
    {"Erf", "The error function.", {9, 13}, Reads::kX, "dy 2 / sqrt(pi) exp(-x^2).", nullptr},
    {"Gelu",
     "y = x times the probability that a standard normal number is below x.",
     {20},
     Reads::kX,
     "dy times the slope of Gelu at x.",
     nullptr},
    {"Swish",
     "y = x / (1 + exp(-alpha x)).",
     {24},
     Reads::kX,
     "dy times the slope of Swish at x.",
     nullptr,
     {activation::kSwishAlpha}},
    {"Mish",
     "y = x tanh(log(1 + exp(x))).",
     {18, 22},
     Reads::kX,
     "dy times the slope of Mish at x.",
     nullptr},
    {"HardSwish",
     "y = x max(0, min(1, x / 6 + 1 / 2)).",
     {14, 22},
     Reads::kX,
     "dy (x / 3 + 1 / 2) where -3 < x < 3, dy from 3 on, else 0.",
     nullptr},
    {"HardSigmoid",
     "y = max(0, min(1, alpha x + beta)).",
     {1, 6, 22},
     Reads::kY,
     "dy alpha where 0 < y < 1, else 0.",
     masked_second,
     {activation::kHardSigmoidAlpha, activation::kHardSigmoidBeta}},
    {"ThresholdedRelu",
     "y = x where x > alpha, else 0.",
     {10, 22},
     Reads::kX,
     "dy where x > alpha, else 0.",
     masked_second,
     {activation::kThreshold}},
    {"Shrink",
     "y = x + bias where x < -lambd, x - bias where x > lambd, else 0.",
     {9},
     Reads::kX,
     "0 where -lambd <= x <= lambd, else dy.",
     masked_second,
     {activation::kShrinkLambd, activation::kShrinkBias}},
};

// What stands in no column of the table.
void finish(OpDef& op, OpDef& grad) {
  if (op.name == "LeakyRelu") op.gradient = gradient(leaky_relu_gradient);
  if (op.name == "Shrink") op.infer = infer_numbers;
  if (op.name == "Selu") op.normalize = normalize_selu;
  if (op.name == "Gelu") {
    op.gradient = gradient(gelu_gradient);
    op.infer = infer_gelu;
    grad.infer = infer_gelu_grad;
    op.attributes = grad.attributes = {kApproximateDef};
  }
}

OpDef swiglu() {
  OpDef op = forward("SwiGLU", "y = a b / (1 + exp(-alpha a)).", {28}, gradient(swiglu_gradient));
  op.inputs = {{"A"}, {"B"}};
  op.attributes = attribute_defs({activation::kSwishAlpha});
  op.infer = infer_swiglu;
  op.batch = rows_of_all;
  op.cells_read = nullptr;  // it would speak for input 0 only
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
      backward("ClipGrad", "dy where min <= x <= max, else 0.", Reads::kX, gradient(masked_second));
  op.inputs.push_back({"min", Presence::kOptional, "a bound"});
  op.inputs.push_back({"max", Presence::kOptional, "a bound"});
  op.infer = infer_clip_grad;
  return op;
}

}  // namespace

void register_activation(OpRegistry& ops) {
  for (const Entry& entry : kEntries) {
    const std::string name = entry.name;
    OpDef op = forward(name, entry.doc, entry.since, to_grad(entry.reads, entry.parameters));
    OpDef grad =
        backward(name + "Grad", entry.grad_doc, entry.reads,
                 entry.second != nullptr ? gradient(entry.second)
                                         : not_differentiable("second derivative of " + name));
    op.attributes = grad.attributes = attribute_defs(entry.parameters);
    finish(op, grad);
    ops.add(std::move(op));
    ops.add(std::move(grad));
  }
  ops.add(forward("Softplus", "y = log(1 + exp(x)).", {1, 22}, gradient(softplus_gradient)));
  ops.add(swiglu());
  ops.add(clip());
  ops.add(clip_grad());
}

}  // namespace sardonyx::ops
