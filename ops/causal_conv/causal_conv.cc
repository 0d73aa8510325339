// CausalConvWithState: a depthwise convolution along the last axis that reads no later position
//
// y[n, c, t] = act(b[c] + sum over j < k of w[c, 0, j] z[n, c, t + j]), z being past and then x
// present = the last k - 1 of z
// Inputs   x [N,C,L]    w [C,1,k]    b [C] (optional)    past [N,C,k-1] (optional: zeros)
// Output   y [N,C,L]    present [N,C,k-1] (optional)
// Attributes  activation: none, silu or swish (both y Sigmoid(y))
// C1 one floating type    C2 the shapes agree, k >= 1    C3 the activation is known
// Gradient that of the nodes it consists of: Concat or Pad, Conv, Swish, Slice. A past that stands
//          in the file is a constant.
// Source   ONNX CausalConvWithState-27
#include "ops/causal_conv/causal_conv.h"

#include <algorithm>

#include "ops/core/axes.h"
#include "ops/core/elementwise.h"
#include "ops/core/infer.h"
#include "ops/core/one_type.h"

namespace sardonyx::ops {

namespace {

enum Input : int { kX, kWeight, kBias, kPast };

// --- Shape

void require_shape(const InferContext& c, int input, const std::vector<Dim>& expected) {
  if (!c.has(input) || c.rank(input) < 0) return;
  c.require(std::ranges::equal(c.dims(input), expected, agree), "C2", "input {} is {}, expected {}",
            input, c.type(input).str(), graph::shape_str(expected));
}

void infer_causal_conv(InferContext& c) {
  require_floating(c, kX, "C1");
  require_one_type(c, kX, c.num_inputs() - 1, "C1");
  const std::string activation = c.node().get_string("activation", "none");
  c.require(activation == "none" || activation == "silu" || activation == "swish", "C3",
            "activation is '{}', expected none, silu or swish", activation);
  c.set(0, c.type(kX));
  if (c.rank(kX) < 0 || c.rank(kWeight) < 0) return c.set_unranked(1, c.dtype(kX));
  for (const int input : {kX, kWeight}) {
    c.require(c.rank(input) == 3, "C2", "input {} is {}, expected 3 axes", input,
              c.type(input).str());
  }
  const std::vector<Dim>& x = c.dims(kX);
  const Dim k = c.dims(kWeight)[2];
  c.require(k.value != 0, "C2", "input 1 is {}, a filter of no elements", c.type(kWeight).str());
  const Dim carried = k.known() ? Dim(k.value - 1) : Dim();
  require_shape(c, kWeight, {x[1], Dim(1), k});
  require_shape(c, kBias, {x[1]});
  require_shape(c, kPast, {x[0], x[1], carried});
  c.set(1, c.dtype(kX), {x[0], x[1], carried});
}

// --- Definition

BatchRole causal_conv_role(const Node& node, int) {
  const Value* past = node.input(kPast);
  const bool rows = past == nullptr || carries_batch(node, past);
  return rows && carries_batch(node, node.input(kX)) ? BatchRole::kRows : BatchRole::kCouples;
}

}  // namespace

void write_causal_conv(ComposeContext& c) {
  OpBuilder& b = c.b();
  const std::vector<int64_t> x = c.x(kX)->type.shape();
  const int64_t carried = c.x(kWeight)->type.shape()[2] - 1;
  Value* z = c.x(kPast) != nullptr
                 ? b.op("Concat", {c.x(kPast), c.x(kX)}, {{"axis", int64_t{2}}})
                 : b.op("Pad", {c.x(kX), b.ints({carried, 0}), nullptr, b.ints({2})});
  if (c.wants(0)) {
    Value* y = b.op("Conv", {z, c.x(kWeight), c.x(kBias)}, {{"group", x[1]}});
    const bool bent = c.node().get_string("activation", "none") != "none";
    c.set(0, bent ? b.op("Swish", {y}) : y);
  }
  if (c.wants(1)) {
    c.set(1, b.op("Slice", {z, b.ints({x[2]}), b.ints({x[2] + carried}), b.ints({2})}));
  }
}

void register_causal_conv(OpRegistry& ops) {
  OpDef op;
  op.name = "CausalConvWithState";
  op.doc = "Depthwise convolution along an axis that looks back only.";
  op.since = {27};
  op.inputs = {{"input"},
               {"weight"},
               {"bias", Presence::kOptional},
               {"past_state", Presence::kOptional, "a state from before"}};
  op.outputs = {{"output"}, {"present_state", Presence::kOptional}};
  op.attributes = {{"activation", "string, default none: silu or swish multiply y by Sigmoid(y)"}};
  op.infer = infer_causal_conv;
  op.batch = causal_conv_role;
  op.parameter_slot = [](int slot) {
    return slot == kWeight ? ParameterSlot::kWeight
           : slot == kBias ? ParameterSlot::kBias
                           : ParameterSlot::kNone;
  };
  op.fan = fan_of_kernel;
  compose(op, write_causal_conv);
  ops.add(std::move(op));
}

}  // namespace sardonyx::ops
