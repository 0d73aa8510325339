// Trilu: y[.., i, j] = x[.., i, j] in a triangle of the last two axes, else 0
//
// upper: where j - i >= k          else: where j - i <= k
// Inputs   x [.., N, M] of any type    k of one element (optional, default 0)
// Output   y like x
// C1 rank(x) >= 2    C2 k is int64 and has one element
// Gradient Trilu of dy; x and y are not read.
// Batch    rows, unless axis 0 is one of the two.
// Source   ONNX Trilu-14
#include "ops/core/elementwise.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"

namespace sardonyx::ops {

namespace {

// --- Shape

void infer_trilu(InferContext& c) {
  c.require(c.rank(0) < 0 || c.rank(0) >= 2, "C1", "input 0 has type {}, expected 2 axes or more",
            c.type(0).str());
  if (c.has(1)) {
    const TensorType& k = c.type(1);
    c.require(k.dtype == DType::kInt64 && (!k.is_static() || k.numel() == 1), "C2",
              "k has type {}, expected int64 of one element", k.str());
  }
  infer_same(c);
}

// --- Gradient

void trilu_gradient(GradientContext& c) {
  if (!c.wants(0)) return;
  c.set(0, c.b().op("Trilu", {c.dy(0), c.x(1)}, {{"upper", c.node().get_int("upper", 1)}}));
}

// --- Definition

BatchRole trilu_role(const Node& node, int) {
  const TensorType& x = node.input(0)->type;
  return x.ranked && x.rank() > 2 ? BatchRole::kRows : BatchRole::kCouples;
}

}  // namespace

void register_trilu(OpRegistry& ops) {
  OpDef op;
  op.name = "Trilu";
  op.doc = "The upper or lower triangle of matrices.";
  op.since = {14};
  op.inputs = {{"input"}, {"k", Presence::kOptional, "number of a diagonal"}};
  op.outputs = {{"output"}};
  op.attributes = {{"upper", "int, default 1: 1 keeps what is on and above the diagonal, 0 below"}};
  op.infer = infer_trilu;
  op.gradient = gradient(trilu_gradient);
  op.batch = trilu_role;
  ops.add(std::move(op));
}

}  // namespace sardonyx::ops
