// Transpose: y[i(perm[0]), i(perm[1]), ...] = x[i0, i1, ...], axis k of y is axis perm[k] of x
//
// Inputs   x of any type          Output  y          perm: all axes of x once, default reversed
// Private  swap_last = 1, without perm: the last two axes change places, whatever the rank
// C1 perm is a permutation of the axes of x      C2 swap_last: x has two axes or more
// Gradient Transpose of dy by the inverse permutation. x and y are not read.
// Batch    dimensions move with their symbols; rows when axis 0 stays.
// Source   ONNX Transpose-25
#include <algorithm>
#include <numeric>

#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/transpose/transpose.h"

namespace sardonyx::ops {

// --- Schema

namespace {

bool swaps_last(const Node& node) { return node.get_int("swap_last", 0) != 0; }

}  // namespace

std::vector<int64_t> permutation(const Node& node, int rank) {
  if (swaps_last(node) && rank >= 2) {
    std::vector<int64_t> swapped(rank);
    std::iota(swapped.begin(), swapped.end(), 0);
    std::swap(swapped[rank - 1], swapped[rank - 2]);
    return swapped;
  }
  std::vector<int64_t> reversed(rank);
  for (int i = 0; i < rank; ++i) reversed[i] = rank - 1 - i;
  return node.get_ints("perm", std::move(reversed));
}

namespace {

// --- Shape

void infer_transpose(InferContext& c) {
  if (c.rank(0) < 0) {
    if (!c.node().has("perm")) return c.set_unranked(0, c.dtype(0));
    return c.set(0, c.dtype(0), std::vector<Dim>(permutation(c.node(), 0).size()));
  }
  c.require(!swaps_last(c.node()) || c.rank(0) >= 2, "C2", "{} has no two axes to exchange",
            c.type(0).str());
  const std::vector<int64_t> perm = permutation(c.node(), c.rank(0));
  std::vector<int64_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  bool whole = std::ssize(sorted) == c.rank(0);
  for (size_t i = 0; whole && i < sorted.size(); ++i) whole = sorted[i] == static_cast<int64_t>(i);
  c.require(whole, "C1", "perm {} is no permutation of the {} axes of {}", graph::shape_str(perm),
            c.rank(0), c.type(0).str());
  std::vector<Dim> dims;
  for (int64_t axis : perm) dims.push_back(c.dims(0)[axis]);
  c.set(0, c.dtype(0), std::move(dims));
}

// --- Gradient

void transpose_gradient(GradientContext& c) {
  if (!c.wants(0)) return;
  const std::vector<int64_t> perm = permutation(c.node(), c.x(0)->type.rank());
  std::vector<int64_t> inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) inverse[perm[i]] = static_cast<int64_t>(i);
  c.set(0, c.b().op("Transpose", {c.dy(0)}, {{"perm", inverse}}));
}

// --- Definition

BatchRole transpose_role(const Node& node, int) {
  const TensorType& x = node.input(0)->type;
  const bool stays = x.ranked && x.rank() > 0 && permutation(node, x.rank())[0] == 0;
  return stays ? BatchRole::kRows : BatchRole::kCouples;
}

}  // namespace

void register_transpose(OpRegistry& ops) {
  OpDef op;
  op.name = "Transpose";
  op.doc = "Permutes the axes.";
  op.since = {1, 13, 21, 23, 24, 25};
  op.inputs = {{"data"}};
  op.outputs = {{"transposed"}};
  op.attributes = {{"perm", "ints, default the axes reversed: axis of the input for each axis"},
                   {"swap_last", "int, private: 1 exchanges the last two axes", Writer::kRules}};
  op.infer = infer_transpose;
  op.gradient = gradient(transpose_gradient);
  op.batch = transpose_role;
  op.narrow = Narrow::kFollows;
  op.preprocessing = true;
  ops.add(std::move(op));
}

}  // namespace sardonyx::ops
