// Repetition: Expand repeats axes of size 1 up to a shape, Tile repeats whole axes.
//
// Expand   y = x + zeros(shape) by the broadcast rule, matched from the last axis: an entry of 1
//          keeps the axis of x, also where the shape is shorter than x
// Tile     y[i0, i1, ...] = x[i0 mod d0, i1 mod d1, ...]; axis i has size d_i * repeats[i]
//
// Inputs   x of any type; Expand: shape int64[k]; Tile: repeats int64[rank(x)]; both constant
// C1 entries are not negative
// C2 Expand: an axis of x has size 1 or that of the shape (else a batch size may be baked)
// C3 Tile: one entry per axis
// Gradient the sum over the repetitions: Expand: ReduceSum over the axes that grew; Tile: Reshape
//          of every axis to [repeats, d], ReduceSum over the repeats. x and y are not read.
// Batch    rows when axis 0 of x is the batch and is not repeated. An axis that is made here has
//          no symbol, whatever its size.
// Source   ONNX Expand-13, Tile-13 (Tile-1 is refused)
#include <algorithm>

#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/core/normalize.h"
#include "ops/core/sizes.h"

namespace sardonyx::ops {

namespace {

// --- Schema

void normalize_tile(NormalizeContext& c) {
  if (c.opset() < 6) c.refuse("its inputs are tiles and axis");
}

// --- Shape

Dim expanded(const InferContext& c, const Dim& dim, int64_t size) {
  if (size == 1 || dim.value == size) return dim;
  if (dim == Dim(1)) return {size};
  if (!dim.known()) return {size, dim.symbol};
  if (dim.value == 1 && dim.symbol.empty()) return {size};
  const std::string& batch = c.node().graph()->batch_symbol;
  const bool is_batch = !batch.empty() && dim.symbol == batch;
  if (is_batch && dim.value != 1) {
    c.fail("C2",
           "an axis of {} is expanded to {}: the batch size {} is baked into the shape, but the "
           "batch here is {}; export the model with a dynamic batch axis",
           c.type(0).str(), size, size, dim.value);
  }
  c.require(dim.value == 1, "C2", "an axis of {} has size {}, expected 1 or {}", c.type(0).str(),
            dim.value, size);
  return {size};
}

void infer_expand(InferContext& c) {
  const auto shape = c.known_ints(1);
  if (!shape || c.rank(0) < 0) {
    const int listed = c.listed_rank(1);
    if (listed < 0 || c.rank(0) < 0) return c.set_unranked(0, c.dtype(0));
    return c.set(0, c.dtype(0), std::vector<Dim>(std::max(c.rank(0), listed)));
  }
  for (size_t i = 0; i < shape->size(); ++i) {
    c.require((*shape)[i] >= 0, "C1", "shape[{}] is {}", i, (*shape)[i]);
  }
  const size_t rank = std::max(shape->size(), c.dims(0).size());
  std::vector<Dim> dims(rank, Dim(1));
  std::copy(c.dims(0).rbegin(), c.dims(0).rend(), dims.rbegin());
  for (size_t i = 0; i < shape->size(); ++i) {
    Dim& dim = dims[rank - shape->size() + i];
    dim = expanded(c, dim, (*shape)[i]);
  }
  c.set(0, c.dtype(0), std::move(dims));
}

void infer_tile(InferContext& c) {
  const auto repeats = c.known_ints(1);
  if (c.rank(0) < 0) return c.set_unranked(0, c.dtype(0));
  if (!repeats) return c.set(0, c.dtype(0), std::vector<Dim>(c.dims(0).size()));
  c.require(std::ssize(*repeats) == c.rank(0), "C3", "{} repeats for the {} axes of {}",
            repeats->size(), c.rank(0), c.type(0).str());
  std::vector<Dim> dims = c.dims(0);
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t times = (*repeats)[i];
    c.require(times >= 0, "C1", "repeats[{}] is {}", i, times);
    if (times == 1) continue;
    dims[i] =
        dims[i].known() ? Dim(checked_product(dims[i].value, times)) : Dim(times == 0 ? 0 : -1);
  }
  c.set(0, c.dtype(0), std::move(dims));
}

// --- Gradient

void expand_gradient(GradientContext& c) {
  if (c.wants(0)) c.set(0, c.reduce_to(c.dy(0), c.x(0)));
}

void tile_gradient(GradientContext& c) {
  if (!c.wants(0)) return;
  const std::vector<int64_t> x = GradientContext::shape(c.x(0)), y = GradientContext::shape(c.y(0));
  std::vector<int64_t> split, axes;
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] != y[i]) {
      axes.push_back(std::ssize(split));
      split.push_back(x[i] == 0 ? 1 : y[i] / x[i]);
    }
    split.push_back(x[i]);
  }
  if (axes.empty()) return c.set(0, c.dy(0));
  graph::Attributes attributes;
  if (std::count(split.begin(), split.end(), 0) > 0) attributes["allowzero"] = int64_t{1};
  Value* parts = c.b().op("Reshape", {c.dy(0), c.b().ints(split)}, std::move(attributes));
  c.set(0, c.b().op("ReduceSum", {parts, c.b().ints(axes)}, {{"keepdims", int64_t{0}}}));
}

// --- Definition

BatchRole repetition_role(const Node& node, int slot) {
  const Value* x = node.input(0);
  const Value* y = node.output(slot);
  const bool rows =
      carries_batch(node, x) && carries_batch(node, y) && x->type.rank() == y->type.rank();
  return rows ? BatchRole::kRows : BatchRole::kCouples;
}

OpDef repetition(std::string name, std::string doc, std::vector<int> since, Port count) {
  OpDef op;
  op.name = std::move(name);
  op.doc = std::move(doc);
  op.since = std::move(since);
  op.inputs = {{"input"}, std::move(count)};
  op.outputs = {{"output"}};
  op.batch = repetition_role;
  op.narrow = Narrow::kFollows;
  return op;
}

}  // namespace

void register_expand(OpRegistry& ops) {
  OpDef expand = repetition("Expand", "Repeats axes of size 1 up to a shape.", {8, 13},
                            {"shape", Presence::kRequired, "integer shape"});
  expand.infer = infer_expand;
  expand.gradient = gradient(expand_gradient);
  ops.add(std::move(expand));

  OpDef tile = repetition("Tile", "Repeats whole axes.", {6, 13},
                          {"repeats", Presence::kRequired, "integer counts"});
  tile.normalize = normalize_tile;
  tile.infer = infer_tile;
  tile.gradient = gradient(tile_gradient);
  ops.add(std::move(tile));
}

}  // namespace sardonyx::ops
