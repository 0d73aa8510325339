// Comparisons, tests, logic and selection, element by element with numpy broadcasting.
//
// Equal Less Greater LessOrEqual GreaterOrEqual    numbers (Equal: also booleans) -> bool
// IsNaN IsInf                                      floats -> bool; infinities of the signs that
//                                                  detect_negative, detect_positive name
// And Or Xor Not                                   booleans -> bool
// Where(condition, x, y)                           x where the condition holds, else y; any type
//
// C1 shapes broadcast    C2 operands have one type, numbers or booleans as above
// C3 the condition of Where is bool    C4 IsNaN and IsInf take floating types
// In opset < 7 the attribute `axis` says where input 1 starts in input 0 (kept as `legacy_axis`).
// Gradient of Where: dy where the operand was taken, else 0 (NaN in the other operand is not
//          touched). Results that are booleans have a zero gradient.
// Source   ONNX Equal-19, Less-13, Greater-13, LessOrEqual-16, GreaterOrEqual-16, And-7, Or-7,
//          Xor-7, Not-1, IsNaN-20, IsInf-20, Where-16
#include "ops/core/broadcast.h"
#include "ops/core/definition.h"
#include "ops/core/elementwise.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/core/normalize.h"
#include "ops/core/one_type.h"

namespace sardonyx::ops {

namespace {

// --- Schema

const AttributeDef kLegacyAttribute = {
    kLegacyAxis, "int, private: axis of input 0 at which input 1 starts (opset < 7)",
    Writer::kRules};

// --- Shape

void infer_comparison(InferContext& c) {
  require_one_type(c, 0, 1, "C2");
  if (c.dtype(0) != DType::kBool || c.node().op != "Equal") require_numbers(c, 0, "C2");
  infer_broadcast(c, DType::kBool, 0, 1, "C1");
}

void infer_test(InferContext& c) {
  require_floating(c, 0, "C4");
  TensorType type = c.type(0);
  type.dtype = DType::kBool;
  c.set(0, std::move(type));
}

void infer_logic(InferContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) {
    c.require(c.dtype(i) == DType::kBool, "C2", "input {} is {}, expected bool", i,
              graph::dtype_name(c.dtype(i)));
  }
  infer_broadcast(c, DType::kBool, 0, c.num_inputs() - 1, "C1");
}

void infer_where(InferContext& c) {
  c.require(c.dtype(0) == DType::kBool, "C3", "the condition is {}, expected bool",
            graph::dtype_name(c.dtype(0)));
  require_one_type(c, 1, 2, "C2");
  infer_broadcast(c, c.dtype(1), 0, 2, "C1");
}

// --- Gradient

void where_gradient(GradientContext& c) {
  Value* zero = c.b().scalar(c.y(0)->type.dtype, 0);
  if (c.wants(1)) c.set(1, c.reduce_to(c.b().op("Where", {c.x(0), c.dy(0), zero}), c.x(1)));
  if (c.wants(2)) c.set(2, c.reduce_to(c.b().op("Where", {c.x(0), zero, c.dy(0)}), c.x(2)));
}

// --- Definition

OpDef definition(const char* name, const char* doc, std::vector<int> since,
                 std::vector<Port> inputs, InferRule infer) {
  OpDef op = standard_op(name, doc, std::move(since), std::move(inputs), {{"Y"}}, infer);
  op.gradient = zero_gradient("boolean result");
  op.batch = broadcast_role;
  op.axes = AxisUse::kElementwise;
  return op;
}

OpDef binary(const char* name, const char* doc, std::vector<int> since, InferRule infer) {
  OpDef op = definition(name, doc, std::move(since), {{"A"}, {"B"}}, infer);
  op.attributes = {kLegacyAttribute};
  op.normalize = normalize_broadcast;
  return op;
}

}  // namespace

void register_compare_select(OpRegistry& ops) {
  ops.add(binary("Equal", "y = (a == b).", {1, 7, 11, 13, 19}, infer_comparison));
  ops.add(binary("Less", "y = (a < b).", {1, 7, 9, 13}, infer_comparison));
  ops.add(binary("Greater", "y = (a > b).", {1, 7, 9, 13}, infer_comparison));
  ops.add(binary("LessOrEqual", "y = (a <= b).", {12, 16}, infer_comparison));
  ops.add(binary("GreaterOrEqual", "y = (a >= b).", {12, 16}, infer_comparison));
  ops.add(binary("And", "y = a and b.", {1, 7}, infer_logic));
  ops.add(binary("Or", "y = a or b.", {1, 7}, infer_logic));
  ops.add(binary("Xor", "y = exactly one of a and b.", {1, 7}, infer_logic));
  ops.add(definition("Not", "y = not x.", {1}, {{"X"}}, infer_logic));
  ops.add(definition("IsNaN", "y = x is no number.", {9, 13, 20}, {{"X"}}, infer_test));
  OpDef is_inf = definition("IsInf", "y = x is infinite.", {10, 20}, {{"X"}}, infer_test);
  is_inf.attributes = {{"detect_negative", "int, default 1: 0 leaves minus infinity out"},
                       {"detect_positive", "int, default 1: 0 leaves plus infinity out"}};
  ops.add(std::move(is_inf));
  OpDef where = definition("Where", "x where the condition holds, else y.", {9, 16},
                           {{"condition", Presence::kRequired, "boolean condition"}, {"X"}, {"Y"}},
                           infer_where);
  where.gradient = gradient(where_gradient);
  where.narrow = Narrow::kFollows;
  ops.add(std::move(where));
}

}  // namespace sardonyx::ops
