// AffineGrid: the places that an affine map gives the cells of an output, for GridSample
//
// grid[n,o..,:] = theta[n] (p(o..), 1); p(o..) is the place of the cell on each axis, the last axis
// first, -1 and 1 being the middles of the outermost cells (align_corners 1) or their outer sides
// Inputs   theta [N,r,r+1]   size int64 [r+2], constant: N, C, o1, .., or      Output
// [N,o1,..,or,r] A1 theta has a floating type and this shape, r is 2 or 3     A2 size has r + 2
// numbers, its first one is N Gradient that of the MatMul it consists of. An axis of one cell has
// it at 0, as in PyTorch. Source   ONNX AffineGrid-20
#include "ops/core/axes.h"
#include "ops/core/elementwise.h"
#include "ops/core/infer.h"
#include "ops/core/strided.h"
#include "ops/grid_sample/grid_sample.h"

namespace sardonyx::ops::grid_sample {

namespace {

// --- Shape

void infer_affine_grid(InferContext& c) {
  require_floating(c, 0, "A1");
  const auto sizes = c.known_ints(1);
  if (!sizes) return c.set_unranked(0, c.dtype(0));
  const int64_t axes = std::ssize(*sizes) - 2;
  c.require(axes == 2 || axes == 3, "A2", "size is {}, expected 4 or 5 numbers",
            graph::shape_str(*sizes));
  Dim samples((*sizes)[0]);
  if (c.rank(0) >= 0) {
    const std::vector<Dim>& theta = c.dims(0);
    c.require(theta.size() == 3 && agree(theta[1], Dim(axes)) && agree(theta[2], Dim(axes + 1)),
              "A1", "theta is {}, expected [N,{},{}]", c.type(0).str(), axes, axes + 1);
    c.require(agree(theta[0], samples), "A2",
              "size {} is for {} samples, but theta has {}; export with a dynamic batch",
              graph::shape_str(*sizes), samples.value, theta[0].value);
    samples = merged(theta[0], samples, c.node().graph()->batch_symbol);
  }
  std::vector<Dim> dims = {samples};
  for (size_t i = 2; i < sizes->size(); ++i) {
    c.require((*sizes)[i] >= 0, "A2", "size is {}", graph::shape_str(*sizes));
    dims.emplace_back((*sizes)[i]);
  }
  dims.emplace_back(axes);
  c.set(0, c.dtype(0), std::move(dims));
}

double place(int64_t cell, int64_t cells, Corners corners) {
  const auto at = static_cast<double>(cell), count = static_cast<double>(cells);
  if (corners == Corners::kSides) return (2 * at + 1) / count - 1;
  return cells == 1 ? 0 : 2 * at / (count - 1) - 1;
}

// [cells, r + 1]: the places of all cells, and a 1.
Tensor places(const std::vector<int64_t>& sizes, Corners corners) {
  std::vector<double> values;
  for_each_index(sizes, [&](const std::vector<int64_t>& cell) {
    for (size_t axis = sizes.size(); axis-- > 0;) {
      values.push_back(place(cell[axis], sizes[axis], corners));
    }
    values.push_back(1);
  });
  const int64_t width = std::ssize(sizes) + 1;
  return Tensor::of<double>({std::ssize(values) / width, width}, values);
}

}  // namespace

// --- Parts

void write_affine_grid(ComposeContext& c) {
  OpBuilder& b = c.b();
  std::vector<int64_t> sizes = c.x(1)->data.to_ints();
  sizes.erase(sizes.begin(), sizes.begin() + 2);
  Value* theta = c.x(0);
  const Tensor cells = places(sizes, Settings::of(c.node()).corners);
  Value* map = b.op("Transpose", {theta}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
  Value* grid = b.op("MatMul", {b.constant(cells.cast(theta->type.dtype), "cells"), map});
  sizes.insert(sizes.begin(), 0);
  sizes.push_back(theta->type.dims[1].value);
  c.set(0, b.op("Reshape", {grid, b.ints(sizes)}));
}

// --- Definition

void register_affine_grid(OpRegistry& ops) {
  OpDef op;
  op.name = "AffineGrid";
  op.doc = "The places that an affine map gives the cells of an output.";
  op.since = {20};
  op.inputs = {{"theta"}, {"size", Presence::kRequired, "integer sizes"}};
  op.outputs = {{"grid"}};
  op.attributes = {
      {"align_corners", "int, default 0: 1 makes -1 and 1 the middles of the outermost cells"}};
  op.infer = infer_affine_grid;
  compose(op, write_affine_grid);
  ops.add(std::move(op));
}

}  // namespace sardonyx::ops::grid_sample
