// Arithmetic on the bits of integers, element by element with numpy broadcasting.
//
// BitwiseAnd BitwiseOr BitwiseXor BitwiseNot    bit by bit
// BitShift(x, s)    x 2^s (LEFT), x / 2^s (RIGHT) rounded down, cut to the width of the type
//
// C1 shapes broadcast    C2 integers of one type    C3 direction is LEFT or RIGHT
// A shift by the width of the type or more, or by a negative number, leaves what one bit after the
// other would: 0, or -1 of a negative number that is shifted to the right.
// Gradient zero: integers move in steps.
// Source   ONNX BitwiseAnd-18, BitwiseOr-18, BitwiseXor-18, BitwiseNot-18, BitShift-28
#include "ops/core/broadcast.h"
#include "ops/core/definition.h"
#include "ops/core/infer.h"
#include "ops/core/one_type.h"

namespace sardonyx::ops {

namespace {

// --- Shape

void infer_bits(InferContext& c) {
  const int last = c.num_inputs() - 1;
  require_one_type(c, 0, last, "C2");
  c.require(graph::is_integer(c.dtype(0)), "C2", "input 0 is {}, expected integers",
            graph::dtype_name(c.dtype(0)));
  infer_broadcast(c, c.dtype(0), 0, last, "C1");
}

void infer_shift(InferContext& c) {
  const std::string direction = c.node().get_string("direction", "");
  c.require(direction == "LEFT" || direction == "RIGHT", "C3",
            "direction is '{}', expected LEFT or RIGHT", direction);
  infer_bits(c);
}

// --- Definition

OpDef definition(const char* name, const char* doc, std::vector<int> since,
                 std::vector<Port> inputs, InferRule infer) {
  OpDef op = standard_op(name, doc, std::move(since), std::move(inputs), {{"C"}}, infer);
  op.gradient = zero_gradient("integer result");
  op.batch = broadcast_role;
  op.axes = AxisUse::kElementwise;
  return op;
}

}  // namespace

void register_bitwise(OpRegistry& ops) {
  const std::vector<Port> two = {{"A"}, {"B"}};
  ops.add(definition("BitwiseAnd", "The bits that a and b both have.", {18}, two, infer_bits));
  ops.add(definition("BitwiseOr", "The bits that a or b has.", {18}, two, infer_bits));
  ops.add(definition("BitwiseXor", "The bits that one of a and b has.", {18}, two, infer_bits));
  ops.add(definition("BitwiseNot", "The bits that x doesn't have.", {18}, {{"X"}}, infer_bits));
  OpDef shift = definition("BitShift", "Bits moved to the left or to the right.", {11, 28},
                           {{"X"}, {"Y"}}, infer_shift);
  shift.attributes = {{"direction", "string: LEFT towards larger numbers, RIGHT towards smaller"}};
  ops.add(std::move(shift));
}

}  // namespace sardonyx::ops
