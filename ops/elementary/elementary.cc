// Elementary functions that networks seldom call: element by element, in double.
//
// Sin Cos Tan Asin Acos Atan      Sinh Cosh Asinh Acosh Atanh      angles in radians
// Floor Ceil Round (half to even) Sign
// sardonyx.SinGrad(x, dy) ...     dy times the slope at x, for the first two groups
//
// Inputs   x of any shape                                          Output  y like x
// C1 x is floating (Sign takes integers too)    C2 x and dy have one shape
// Gradient reads x, not y. The last group has a zero gradient, at its jumps too. NaN stays NaN;
//          outside of its domain a function is NaN.
// Source   ONNX Sin-22, Cos-22, Tan-22, Asin-22, Acos-22, Atan-22, Sinh-22, Cosh-22, Asinh-22,
//          Acosh-22, Atanh-22, Floor-13, Ceil-13, Round-22, Sign-13
#include "ops/elementary/elementary.h"

#include <cmath>

#include "ops/core/definition.h"
#include "ops/core/elementwise.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"

namespace sardonyx::ops {

// --- Schema

namespace elementary {

namespace {

double square(double x) { return x * x; }

const std::vector<Function> kFunctions = {
    {"Sin", "y = sine of x.", {7, 22}, std::sin, std::cos},
    {"Cos", "y = cosine of x.", {7, 22}, std::cos, [](double x) { return -std::sin(x); }},
    {"Tan",
     "y = tangent of x.",
     {7, 22},
     std::tan,
     [](double x) { return 1 + square(std::tan(x)); }},
    {"Asin",
     "y = angle whose sine is x.",
     {7, 22},
     std::asin,
     [](double x) { return 1 / std::sqrt((1 - x) * (1 + x)); }},
    {"Acos",
     "y = angle whose cosine is x.",
     {7, 22},
     std::acos,
     [](double x) { return -1 / std::sqrt((1 - x) * (1 + x)); }},
    {"Atan",
     "y = angle whose tangent is x.",
     {7, 22},
     std::atan,
     [](double x) { return 1 / (1 + x * x); }},
    {"Sinh", "y = hyperbolic sine of x.", {9, 22}, std::sinh, std::cosh},
    {"Cosh", "y = hyperbolic cosine of x.", {9, 22}, std::cosh, std::sinh},
    {"Asinh",
     "y = number whose hyperbolic sine is x.",
     {9, 22},
     std::asinh,
     [](double x) { return 1 / std::hypot(1.0, x); }},
    {"Acosh",
     "y = number whose hyperbolic cosine is x.",
     {9, 22},
     std::acosh,
     [](double x) { return 1 / (std::sqrt(x - 1) * std::sqrt(x + 1)); }},
    {"Atanh",
     "y = number whose hyperbolic tangent is x.",
     {9, 22},
     std::atanh,
     [](double x) { return 1 / ((1 - x) * (1 + x)); }},
    {"Floor", "y = largest whole number up to x.", {1, 6, 13}, std::floor, nullptr},
    {"Ceil", "y = smallest whole number from x on.", {1, 6, 13}, std::ceil, nullptr},
    {"Round", "y = nearest whole number, the even one halfway.", {11, 22}, std::nearbyint, nullptr},
    {"Sign",
     "y = -1, 0 or 1 by the sign of x.",
     {9, 13},
     [](double x) { return x > 0   ? 1
                           : x < 0 ? -1
                                   : x; },
     nullptr},
};

}  // namespace

const std::vector<Function>& functions() { return kFunctions; }

}  // namespace elementary

namespace {

using elementary::Function;

// --- Shape

void infer_function(InferContext& c) {
  const bool whole = c.node().op == "Sign" && graph::is_integer(c.dtype(0));
  if (!whole) require_floating(c, 0, "C1");
  infer_same(c);
}

void infer_slope(InferContext& c) {
  require_floating(c, 0, "C1");
  infer_same_shapes(c, 0, 1, "C2");
}

// --- Gradient

void function_gradient(GradientContext& c) {
  c.set(0, c.b().own(c.node().op + "Grad", {c.x(0), c.dy(0)}));
}

// --- Definition

OpDef forward(const Function& function) {
  OpDef op;
  op.name = function.name;
  op.doc = function.doc;
  op.since = function.since;
  op.inputs = {{"X"}};
  op.outputs = {{"Y"}};
  op.infer = infer_function;
  op.gradient = function.slope != nullptr ? gradient(function_gradient)
                                          : zero_gradient("the function is made of steps");
  op.batch = rows;
  op.axes = AxisUse::kElementwise;
  op.cells_read = [](const Node&, const std::vector<int64_t>& needed) { return needed; };
  return op;
}

OpDef backward(const Function& function) {
  const std::string name(function.name);
  OpDef op = gradient_op(name + "Grad", "dy times the slope of " + name + " at x.", name,
                         {{"x"}, {"dy"}}, {{"dx"}}, infer_slope);
  op.batch = rows_of_all;
  return op;
}

}  // namespace

void register_elementary(OpRegistry& ops) {
  for (const Function& function : elementary::functions()) {
    ops.add(forward(function));
    if (function.slope != nullptr) ops.add(backward(function));
  }
}

}  // namespace sardonyx::ops
