// ReverseSequence: the first n[b] steps of sequence b in reverse, the others as they are
//
// y[t, b, ..] = x[t < n[b] ? n[b] - 1 - t : t, b, ..], axes t and b in the order of the attributes
// Inputs   x of any type, rank >= 2    sequence_lens n int64 [sequences]         Output  y like x
// V1 x has two axes at least    V2 time_axis and batch_axis are 0 and 1, in either order
// V3 a number of steps for each sequence    V4 0 <= n[b] <= steps (checked when it is read)
// Gradient the same reversal of dy.
// Batch    rows, where batch_axis is 0 and both inputs carry the batch.
// Source   ONNX ReverseSequence-28
#include "ops/core/axes.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/registry.h"

namespace sardonyx::ops {

namespace {

// --- Shape

void infer_reverse(InferContext& c) {
  const int64_t batch = c.node().get_int("batch_axis", 1), time = c.node().get_int("time_axis", 0);
  c.require((batch == 0 && time == 1) || (batch == 1 && time == 0), "V2",
            "batch_axis {} and time_axis {} are not 0 and 1", batch, time);
  c.require(c.dtype(1) == DType::kInt64, "V3", "sequence_lens are {}, expected int64",
            c.type(1).str());
  c.set(0, c.type(0));
  if (c.rank(0) < 0) return;
  c.require(c.rank(0) >= 2, "V1", "x is {}, expected two axes at least", c.type(0).str());
  const Dim& sequences = c.dims(0)[batch];
  c.require(c.rank(1) < 0 || (c.rank(1) == 1 && agree(c.dims(1)[0], sequences)), "V3",
            "sequence_lens are {}, expected one for each of {} sequences", c.type(1).str(),
            sequences.value);
}

// --- Gradient

void reverse_gradient(GradientContext& c) {
  if (!c.wants(0)) return;
  c.set(0, c.b().op("ReverseSequence", {c.dy(0), c.x(1)},
                    {{"batch_axis", c.node().get_int("batch_axis", 1)},
                     {"time_axis", c.node().get_int("time_axis", 0)}}));
}

// --- Definition

BatchRole reverse_role(const Node& node, int) {
  const bool rows = node.get_int("batch_axis", 1) == 0 && carries_batch(node, node.input(0)) &&
                    carries_batch(node, node.input(1));
  return rows ? BatchRole::kRows : BatchRole::kCouples;
}

}  // namespace

void register_reverse_sequence(OpRegistry& ops) {
  OpDef op;
  op.name = "ReverseSequence";
  op.doc = "The first steps of each sequence in reverse.";
  op.since = {10, 28};
  op.inputs = {{"input"}, {"sequence_lens", Presence::kRequired, "integer lengths"}};
  op.outputs = {{"Y"}};
  op.attributes = {{"batch_axis", "int, default 1: the axis of the sequences"},
                   {"time_axis", "int, default 0: the axis of their steps"}};
  op.infer = infer_reverse;
  op.gradient = gradient(reverse_gradient);
  op.batch = reverse_role;
  ops.add(std::move(op));
}

}  // namespace sardonyx::ops
