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

}  // namespace

// --- Parts

namespace {

// The place of each cell of an axis.
Value* places(OpBuilder& b, DType dtype, int64_t cells, Corners corners) {
  const bool sides = corners == Corners::kSides;
  const auto count = static_cast<double>(cells);
  const double between = sides ? count : count - 1;
  const double step = sides || cells > 1 ? 2 / between : 0;
  const double first = sides ? 1 / count - 1 : cells > 1 ? -1 : 0;
  Value* numbers = b.op("Range", {b.scalar(dtype, 0), b.scalar(dtype, count), b.scalar(dtype, 1)});
  return b.op("Add", {b.op("Mul", {numbers, b.scalar(dtype, step)}), b.scalar(dtype, first)});
}

// [cells, r + 1]: the places of all cells, the last axis first, and a 1.
Value* all_places(OpBuilder& b, DType dtype, const std::vector<int64_t>& sizes, Corners corners) {
  std::vector<int64_t> column = sizes;
  column.push_back(1);
  std::vector<Value*> columns;
  int64_t cells = 1;
  for (size_t axis = sizes.size(); axis-- > 0;) {
    std::vector<int64_t> along(column.size(), 1);
    along[axis] = sizes[axis];
    Value* line = b.op("Reshape", {places(b, dtype, sizes[axis], corners), b.ints(along)});
    columns.push_back(b.op("Expand", {line, b.ints(column)}));
    cells *= sizes[axis];
  }
  columns.push_back(b.op("Expand", {b.scalar(dtype, 1), b.ints(column)}));
  const int64_t width = std::ssize(columns);
  Value* joined = b.op("Concat", columns, {{"axis", int64_t{-1}}});
  return b.op("Reshape", {joined, b.ints({cells, width})});
}

}  // namespace

void write_affine_grid(ComposeContext& c) {
  OpBuilder& b = c.b();
  Value* theta = c.x(0);
  std::vector<int64_t> sizes = c.x(1)->data.to_ints();
  sizes.erase(sizes.begin(), sizes.begin() + 2);
  Value* cells = all_places(b, theta->type.dtype, sizes, Settings::of(c.node()).corners);
  Value* map = b.op("Transpose", {theta}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
  Value* grid = b.op("MatMul", {cells, map});
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
