// Operators that choose between operands, element by element with numpy broadcasting.
//
// Max Min    the largest, the smallest of any number of inputs; NaN wins
// PRelu      x where x >= 0, else slope x
// sardonyx.MaxGrad(dy, x, others)    dy / count where x is one of `count` operands that are the
// sardonyx.MinGrad(dy, x, others)    maximum (minimum), else 0; in the output's shape
// sardonyx.PReluGrad(x, slope, dy)   dy where x > 0, else slope dy
//
// C1 shapes broadcast    C2 one element type, numbers    C3 slope broadcasts to the shape of x
// In opset < 7 the slope has one element or one per channel: it starts at axis 1 (`legacy_axis`).
// Gradient summed over the broadcast axes; reads the operands, not y. Ties share evenly: Max(x, 0)
//          has 1/2 at 0. PRelu has the slope at 0.
// Source   ONNX Max-13, Min-13, PRelu-16
#include <algorithm>

#include "ops/core/axes.h"
#include "ops/core/broadcast.h"
#include "ops/core/elementwise.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/core/normalize.h"
#include "ops/core/one_type.h"

namespace sardonyx::ops {

namespace {

// --- Schema

void normalize_prelu(NormalizeContext& c) {
  if (c.opset() < 7) c.node().attributes[kLegacyAxis] = int64_t{1};
}

// --- Shape

void infer_extremum(InferContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) {
    require_numbers(c, i, "C2");
  }
  require_one_type(c, 0, c.num_inputs() - 1, "C2");
  infer_broadcast(c, c.dtype(0), 0, c.num_inputs() - 1, "C1");
}

void infer_prelu(InferContext& c) {
  infer_extremum(c);
  if (!c.wants(0)) return;
  const TensorType& x = c.type(0);
  const TensorType& y = c.node().output(0)->type;
  const bool fits = !x.ranked || !y.ranked || std::ranges::equal(x.dims, y.dims, agree);
  c.require(fits, "C3", "slope has type {}, which does not broadcast to that of x, {}",
            c.type(1).str(), x.str());
  c.set(0, x);
}

void infer_prelu_grad(InferContext& c) { infer_broadcast(c, c.dtype(0), 0, 2, "C1"); }

// --- Gradient

void extremum_gradient(GradientContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (!c.wants(i)) continue;
    std::vector<Value*> operands = {c.dy(0), c.x(i)};
    for (int k = 0; k < c.num_inputs(); ++k) {
      if (k != i) operands.push_back(c.x(k));
    }
    c.set(i, c.reduce_to(c.b().own(c.node().op + "Grad", std::move(operands)), c.x(i)));
  }
}

void extremum_second(GradientContext& c) {
  if (c.wants(0)) {
    std::vector<Value*> operands = {c.dy(0)};
    for (int i = 1; i < c.num_inputs(); ++i) operands.push_back(c.x(i));
    c.set(0, c.b().own(c.node().op, std::move(operands)));
  }
  for (int i = 1; i < c.num_inputs(); ++i) {
    if (c.wants(i)) c.set(i, c.b().filled_like(c.x(i), 0));
  }
}

void prelu_gradient(GradientContext& c) {
  if (c.wants(0)) {
    graph::Attributes attributes;
    if (c.node().has(kLegacyAxis)) attributes[kLegacyAxis] = c.node().get_int(kLegacyAxis, 0);
    c.set(0, c.b().own("PReluGrad", {c.x(0), c.x(1), c.dy(0)}, std::move(attributes)));
  }
  if (!c.wants(1)) return;
  Value* below = c.b().op("Min", {c.x(0), c.b().scalar(c.x(0)->type.dtype, 0)});
  c.set(1, reduce_to_input(c, c.b().op("Mul", {c.dy(0), below}), 1));
}

// --- Definition

OpDef definition(std::string name, std::string doc, std::vector<Port> inputs,
                 void (*infer)(InferContext&), Gradient rule) {
  OpDef op;
  op.name = std::move(name);
  op.doc = std::move(doc);
  op.inputs = std::move(inputs);
  op.outputs = {{"Y"}};
  op.infer = infer;
  op.gradient = std::move(rule);
  op.batch = broadcast_role;
  op.axes = AxisUse::kElementwise;
  op.narrow = Narrow::kFollows;
  return op;
}

OpDef extremum(std::string name, std::string doc) {
  OpDef op = definition(std::move(name), std::move(doc), {{"data", Presence::kVariadic}},
                        infer_extremum, gradient(extremum_gradient));
  op.since = {1, 6, 8, 12, 13};
  return op;
}

OpDef backward(std::string name, std::string doc, std::vector<Port> inputs,
               void (*infer)(InferContext&), Gradient rule) {
  OpDef op = definition(std::move(name), std::move(doc), std::move(inputs), infer, std::move(rule));
  op.domain = kDomain;
  op.outputs = {{"dx"}};
  return op;
}

}  // namespace

void register_select(OpRegistry& ops) {
  ops.add(extremum("Max", "Maximum of the inputs; ties share the gradient evenly."));
  ops.add(extremum("Min", "Minimum of the inputs; ties share the gradient evenly."));
  for (const char* name : {"MaxGrad", "MinGrad"}) {
    ops.add(backward(name, "dy, shared evenly, where x is the extremum of all; else 0.",
                     {{"dy"}, {"x"}, {"others", Presence::kVariadic}}, infer_extremum,
                     gradient(extremum_second)));
  }
  OpDef prelu = definition("PRelu", "y = x where x >= 0, else slope x.", {{"X"}, {"slope"}},
                           infer_prelu, gradient(prelu_gradient));
  prelu.since = {1, 6, 7, 9, 16};
  prelu.attributes = {{kLegacyAxis, "int, private: axis of x at which the slope starts (opset < 7)",
                       Writer::kRules}};
  prelu.normalize = normalize_prelu;
  prelu.parameter_slot = [](int slot) {
    return slot == 1 ? ParameterSlot::kSlope : ParameterSlot::kNone;
  };
  OpDef prelu_grad =
      backward("PReluGrad", "dy where x > 0, else slope dy.", {{"x"}, {"slope"}, {"dy"}},
               infer_prelu_grad, not_differentiable("second derivative of PRelu"));
  prelu_grad.attributes = prelu.attributes;
  ops.add(std::move(prelu));
  ops.add(std::move(prelu_grad));
}

}  // namespace sardonyx::ops
