// MaxUnpool: y[indices[i]] = x[i], all other cells of y are 0
//
// Inputs   x [N,C,H,W]   indices like x, as MaxPool gives them: cells of all maps together are
//          numbered in row-major order      output_shape [rank] (optional)       Output  y
//          [N,C,P,Q]
// The maps that indices number have (H-1)*sh + R - pads cells per axis. They are y, or with
// output_shape the first corner of it. Of several x for one cell the last one is y.
// U1 rank(x) >= 3                     U2 kernel_shape is there, one entry per spatial axis
// U3 indices are int64, of x's shape  U4 x is of a floating type    U5 the maps have a cell
// U6 output_shape has an entry per axis, N and C as x has them, the others not below the maps'
// U7 indices are 0 to the last cell of the maps (asked for when it runs)
// W2, W3   of ops/core/window.h
// Gradient dx = MaxUnpoolGrad(dy, indices): what stands at the index, 0 for an x that was
//          overwritten. x is not read. Indices have none.
// Batch    indices see the batch: couples.
// Source   ONNX MaxUnpool-9, 11, 22
#include "ops/max_unpool/max_unpool.h"

#include "ops/core/axes.h"
#include "ops/core/definition.h"
#include "ops/core/elementwise.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/core/sizes.h"
#include "ops/core/window.h"
#include "ops/registry.h"

namespace sardonyx::ops {

namespace max_unpool {

std::vector<int64_t> map_sizes(const Node& node, const std::vector<int64_t>& x) {
  const size_t axes = x.size();
  const std::vector<int64_t> kernel = node.get_ints("kernel_shape", {});
  if (kernel.size() != axes) {
    throw ConstraintError("U2", "kernel_shape {} needs one entry for each of {} spatial axes",
                          graph::shape_str(kernel), axes);
  }
  const Window window = window_of(node, std::vector<int64_t>(axes, -1), kernel);
  std::vector<int64_t> sizes(axes, -1);
  for (size_t i = 0; i < axes; ++i) {
    if (x[i] < 0) continue;
    sizes[i] = checked_sum(checked_product(x[i] - 1, window.stride[i]),
                           kernel[i] - window.pad_begin[i] - window.pad_end[i]);
    if (sizes[i] >= 1) continue;
    throw ConstraintError("U5",
                          "the map would be empty: spatial axis {} of size {} with the stride {}, "
                          "pads {} and {} and a kernel of {} comes to {} cells",
                          i, x[i], window.stride[i], window.pad_begin[i], window.pad_end[i],
                          kernel[i], sizes[i]);
  }
  return sizes;
}

UnpoolGeometry::UnpoolGeometry(const Node& node, const TensorType& indices, const TensorType& y)
    : planes_(y.dims[0].value * y.dims[1].value),
      map_cells_(1),
      y_cells_(1),
      map_(map_sizes(node, spatial(indices))),
      y_(spatial(y)) {
  for (const int64_t size : map_) map_cells_ *= size;
  for (const int64_t size : y_) y_cells_ *= size;
}

int64_t UnpoolGeometry::place(int64_t index, int64_t i) const {
  if (index < 0 || index >= planes_ * map_cells_) {
    throw Error("indices[{}] is {}, expected 0 to {}, the last cell of {} maps of {}", i, index,
                planes_ * map_cells_ - 1, planes_, graph::shape_str(map_));
  }
  int64_t cell = index % map_cells_, at = 0, step = 1;
  for (size_t a = map_.size(); a-- > 0;) {
    at += cell % map_[a] * step;
    cell /= map_[a];
    step *= y_[a];
  }
  return index / map_cells_ * y_cells_ + at;
}

}  // namespace max_unpool

namespace {

// --- Schema

const std::vector<AttributeDef> kWindow = {
    {"kernel_shape", "ints, required: sizes of the window of the MaxPool that is undone"},
    {"strides", "ints, default all 1: its step"},
    {"pads", "ints, default all 0: its pads, all begins, then all ends"}};

// --- Shape

void require_indices(const InferContext& c, const TensorType& indices) {
  c.require(indices.dtype == DType::kInt64, "U3", "indices are {}, expected int64",
            graph::dtype_name(indices.dtype));
}

std::vector<Dim> joined(const Dim& rows, const Dim& channels, const std::vector<int64_t>& sizes) {
  std::vector<Dim> dims{rows, channels};
  for (const int64_t size : sizes) dims.emplace_back(size);
  return dims;
}

// Spatial sizes of y, where output_shape says them.
std::vector<int64_t> asked_sizes(const InferContext& c, const std::vector<int64_t>& map) {
  const std::optional<std::vector<int64_t>> shape = c.known_ints(2);
  if (!shape) return std::vector<int64_t>(map.size(), -1);
  bool fits = shape->size() == map.size() + 2;
  for (size_t i = 0; fits && i < shape->size(); ++i) {
    const int64_t asked = (*shape)[i];
    fits = i < 2 ? agree(c.dims(0)[i], Dim(asked)) : asked >= map[i - 2];
  }
  c.require(fits, "U6", "output_shape {} doesn't fit: x is {}, and its maps are {}",
            graph::shape_str(*shape), c.type(0).str(), graph::shape_str(map));
  return {shape->begin() + 2, shape->end()};
}

void infer_max_unpool(InferContext& c) {
  require_floating(c, 0, "U4");
  require_indices(c, c.type(1));
  if (c.rank(0) < 0) return c.set_unranked(0, c.dtype(0));
  const std::vector<Dim>& dims = c.dims(0);
  c.require(dims.size() >= 3, "U1", "x has rank {} {}, expected at least 3", dims.size(),
            graph::shape_str(dims));
  if (c.rank(1) >= 0) {
    bool fits = c.dims(1).size() == dims.size();
    for (size_t i = 0; fits && i < dims.size(); ++i) fits = agree(c.dims(1)[i], dims[i]);
    c.require(fits, "U3", "indices are {}, but x is {}", c.type(1).str(), c.type(0).str());
  }
  const std::vector<int64_t> map = max_unpool::map_sizes(c.node(), spatial(c.type(0)));
  c.set(0, c.dtype(0), joined(dims[0], dims[1], c.has(2) ? asked_sizes(c, map) : map));
}

void infer_max_unpool_grad(InferContext& c) {
  require_floating(c, 0, "U4");
  const TensorType& indices = c.type(1);
  require_indices(c, indices);
  if (!indices.ranked) return c.set_unranked(0, c.dtype(0));
  c.set(0, c.dtype(0), indices.dims);
}

// --- Gradient

void max_unpool_gradient(GradientContext& c) {
  if (c.wants(0)) {
    c.set(0, c.b().own("MaxUnpoolGrad", {c.dy(0), c.x(1)}, c.node().attributes));
  }
}

// --- Definition

OpDef max_unpool_op() {
  OpDef op;
  op.name = "MaxUnpool";
  op.doc = "Puts values where a MaxPool found them, zeros everywhere else.";
  op.since = {9, 11, 22};
  op.inputs = {{"x"},
               {"indices", Presence::kRequired, "integer indices"},
               {"output_shape", Presence::kOptional, "shape"}};
  op.outputs = {{"y"}};
  op.attributes = kWindow;
  op.infer = infer_max_unpool;
  op.gradient = gradient(max_unpool_gradient);
  return op;
}

OpDef max_unpool_grad_op() {
  OpDef op = gradient_op("MaxUnpoolGrad", "Gradient of MaxUnpool: dy where the indices point.",
                         "MaxUnpool", {{"dy"}, {"indices", Presence::kRequired, "integer indices"}},
                         {{"dx"}}, infer_max_unpool_grad);
  op.attributes = kWindow;
  return op;
}

}  // namespace

void register_max_unpool(OpRegistry& ops) {
  ops.add(max_unpool_op());
  ops.add(max_unpool_grad_op());
}

}  // namespace sardonyx::ops
