// Pooling: y[n,c,p,q] = maximum, mean or p-norm of the cells x[n,c, p*sh-ph+r*dh, q*sw-pw+s*dw],
//          r < R, s < S
//
// MaxPool (with optional Indices), AveragePool, LpPool and GlobalMaxPool, GlobalAveragePool,
// GlobalLpPool (the window is the whole map), over any number of spatial axes.
// Inputs   x [N,C,H,W]                                Outputs  y [N,C,P,Q]  indices (MaxPool only)
// P1 rank(x) >= 3    P2 kernel_shape is there, one entry per spatial axis    W1..W6 of window.h
// P3 x is of a floating type (MaxPool: or 8-bit)      P4 storage_order is 0 or 1
// P5 the p of a norm is a finite number >= 1          P6 a pad is shorter than the window
// Maximum  the padding never wins; the first maximum in row-major window order does, and NaN beats
//          numbers. A window without a cell gives the lowest value.
// Mean     divides by the cells inside x, or with count_include_pad by those inside x and its
//          declared pads; cells that only ceil_mode adds never count.
// Norm     (sum of |x|^p)^(1/p); cells of pads add nothing.
// Indices  number of the winner in x, row-major over the whole tensor; with storage_order 1 the
//          map is counted column by column. They see the batch, so the node couples rows.
// Gradient MaxPool  dx = MaxPoolGrad(x, dy), which looks for the winners again: y is not read.
//          AveragePool  dx = AveragePoolGrad(dy): x is not read, its sizes are an attribute.
//          LpPool  dx = LpPoolGrad(x, y, dy): sign(x) |x|^(p-1) sum of dy / y^(p-1).
// Source   ONNX MaxPool-22, AveragePool-22, LpPool-22, GlobalMaxPool-22, GlobalAveragePool-22,
//          GlobalLpPool-22
#include "ops/pool/pool.h"

#include <algorithm>
#include <cmath>

#include "ops/core/constraint.h"
#include "ops/core/definition.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/registry.h"

namespace sardonyx::ops {

namespace pool {

Refusal finding_indices() {
  return {"finds no indices", [](const KernelRequest& request) { return request.has_out(1); }};
}

int64_t PoolGeometry::counted(int axis, int64_t out) const {
  const int64_t start = out * window.stride[axis] - window.pad_begin[axis];
  const bool pads = pad_cells == PadCells::kCounted;
  const int64_t low = pads ? -window.pad_begin[axis] : 0;
  const int64_t high = window.in[axis] + (pads ? window.pad_end[axis] : 0);
  int64_t count = 0;
  for (int64_t t = 0; t < window.kernel[axis]; ++t) {
    const int64_t at = start + t * window.dilation[axis];
    if (at >= low && at < high) ++count;
  }
  return count;
}

int64_t PoolGeometry::divisor(int64_t cell) const {
  int64_t result = 1;
  for (int axis = window.axes(); axis-- > 0;) {
    result *= counted(axis, cell % window.out[axis]);
    cell /= window.out[axis];
  }
  return result;
}

namespace {

bool is_global(const Node& node) { return node.op.starts_with("Global"); }

// Window of a node whose x has these spatial sizes.
Window pool_window(const Node& node, const std::vector<int64_t>& in) {
  Window window = window_of(node, in, is_global(node) ? in : node.get_ints("kernel_shape", {}));
  for (int axis = 0; axis < window.axes(); ++axis) {
    const int64_t pad = std::max(window.pad_begin[axis], window.pad_end[axis]);
    if (window.kernel[axis] < 0 || pad == 0 || pad < window.extent(axis)) continue;
    throw ConstraintError("P6",
                          "spatial axis {} has a pad of {}, but a window of {}: it would see "
                          "pads only",
                          axis, pad, window.extent(axis));
  }
  return window;
}

}  // namespace

PoolGeometry PoolGeometry::of(const Node& node, const TensorType& x, const TensorType& y) {
  PoolGeometry g;
  g.batch = x.dims[0].value;
  g.channels = x.dims[1].value;
  g.window = pool_window(node, spatial(x));
  CHECK(g.window.out == spatial(y), "{}: y is {}", node.label(), y.str());
  if (node.get_int("count_include_pad", 0) != 0) g.pad_cells = PadCells::kCounted;
  return g;
}
PoolGeometry PoolGeometry::forward(const KernelRequest& r) {
  return of(*r.node, r.in[0], r.out[0]);
}
PoolGeometry PoolGeometry::max_grad(const KernelRequest& r) {
  return of(*r.node, r.in[0], r.in[1]);
}
PoolGeometry PoolGeometry::avg_grad(const KernelRequest& r) {
  return of(*r.node, r.out[0], r.in[0]);
}
PoolGeometry PoolGeometry::lp_grad(const KernelRequest& r) { return of(*r.node, r.in[0], r.in[1]); }

LpNorm LpNorm::of(const Node& node) {
  const auto at = node.attributes.find("p");
  const auto* whole = at == node.attributes.end() ? nullptr : std::get_if<int64_t>(&at->second);
  const double p = whole != nullptr ? static_cast<double>(*whole) : node.get_float("p", 2);
  if (p >= 1 && std::isfinite(p)) return {p};
  throw ConstraintError("P5", "p is {}, expected a finite number from 1 on", p);
}

}  // namespace pool

namespace {

// --- Schema
// ----------------------------------------------------------------------------------------------

const AttributeDef kKernelShape = {"kernel_shape", "ints, required: sizes of the window"};
const AttributeDef kStrides = {"strides", "ints, default all 1: step of the window"};
const AttributeDef kDilations = {"dilations", "ints, default all 1: distance of its cells"};
const AttributeDef kPads = {"pads", "ints, default all 0: all begins, then all ends"};
const AttributeDef kCeilMode = {"ceil_mode", "int, default 0: 1 keeps a last, partial window"};
const AttributeDef kAutoPad = {
    "auto_pad", "string, default NOTSET: VALID, SAME_UPPER or SAME_LOWER instead of pads"};
const AttributeDef kCountPad = {"count_include_pad",
                                "int, default 0: 1 counts declared pads in the divisor"};
const AttributeDef kStorageOrder = {"storage_order",
                                    "int, default 0: 1 counts Indices column by column"};
const AttributeDef kOrder = {"p", "int (opset 1: float), default 2: order of the norm, at least 1"};
const AttributeDef kInputShape = {"input_shape", "ints, required: spatial sizes of dx"};

// --- Shape
// -----------------------------------------------------------------------------------------------

void require_float(const InferContext& c, int i) {
  c.require(graph::is_floating(c.dtype(i)), "P3", "input {} has type {}, expected a float type", i,
            graph::dtype_name(c.dtype(i)));
}

void require_max_type(const InferContext& c) {
  const DType dtype = c.dtype(0);
  c.require(graph::is_floating(dtype) || dtype == DType::kInt8 || dtype == DType::kUint8, "P3",
            "x has type {}, expected a float type, int8 or uint8", graph::dtype_name(dtype));
}

void require_kernel(const InferContext& c, int rank) {
  c.require(rank >= 3, "P1", "input 0 has rank {} {}, expected at least 3", rank,
            graph::shape_str(c.dims(0)));
  if (pool::is_global(c.node())) return;
  const std::vector<int64_t> kernel = c.node().get_ints("kernel_shape", {});
  c.require(static_cast<int>(kernel.size()) == rank - 2, "P2",
            "kernel_shape {} needs one entry for each of {} spatial axes", graph::shape_str(kernel),
            rank - 2);
  for (const int64_t size : kernel) {
    c.require(size >= 1, "W5", "kernel_shape {} has the entry {}, expected at least 1",
              graph::shape_str(kernel), size);
  }
}

std::vector<Dim> join(const Dim& first, const Dim& second, const std::vector<int64_t>& rest) {
  std::vector<Dim> dims{first, second};
  for (const int64_t size : rest) dims.emplace_back(size);
  return dims;
}

// Dimensions of y; nullopt while x has no known rank.
std::optional<std::vector<Dim>> output_dims(const InferContext& c) {
  if (c.rank(0) < 0) return std::nullopt;
  require_kernel(c, c.rank(0));
  const TensorType& x = c.type(0);
  std::vector<int64_t> out(x.dims.size() - 2, 1);
  if (!pool::is_global(c.node())) out = pool::pool_window(c.node(), spatial(x)).out;
  return join(x.dims[0], x.dims[1], out);
}

void infer_max(InferContext& c) {
  require_max_type(c);
  const int64_t order = c.node().get_int("storage_order", 0);
  c.require(order == 0 || order == 1, "P4", "storage_order is {}, expected 0 or 1", order);
  if (const auto dims = output_dims(c)) {
    c.set(0, c.dtype(0), *dims);
    c.set(1, DType::kInt64, *dims);
  } else {
    c.set_unranked(0, c.dtype(0));
    c.set_unranked(1, DType::kInt64);
  }
}

void infer_average(InferContext& c) {
  require_float(c, 0);
  if (const auto dims = output_dims(c)) {
    c.set(0, c.dtype(0), *dims);
  } else {
    c.set_unranked(0, c.dtype(0));
  }
}

void infer_lp(InferContext& c) {
  pool::LpNorm::of(c.node());
  infer_average(c);
}

// dy must be what the window makes of x.
void require_outputs(const InferContext& c, const Window& window, const TensorType& dy) {
  const std::vector<int64_t> got = spatial(dy);
  bool fits = got.size() == window.out.size();
  for (size_t i = 0; fits && i < got.size(); ++i) {
    fits = got[i] < 0 || window.out[i] < 0 || got[i] == window.out[i];
  }
  c.require(fits, "P1", "dy {} does not fit: expected {} along the spatial axes",
            graph::shape_str(dy.dims), graph::shape_str(window.out));
}

void infer_max_grad(InferContext& c) {
  require_float(c, 0);
  const TensorType& x = c.type(0);
  const TensorType& dy = c.type(1);
  if (x.ranked) {
    require_kernel(c, x.rank());
    const Window window = pool::pool_window(c.node(), spatial(x));
    if (dy.ranked) require_outputs(c, window, dy);
  }
  TensorType dx = x;
  dx.layout = {};
  c.set(0, dx);
}

// x, y, dy: y and dy are of one shape.
void infer_lp_grad(InferContext& c) {
  pool::LpNorm::of(c.node());
  infer_max_grad(c);
}

void infer_average_grad(InferContext& c) {
  require_float(c, 0);
  const TensorType& dy = c.type(0);
  if (!dy.ranked) return c.set_unranked(0, dy.dtype);
  require_kernel(c, dy.rank());
  const std::vector<int64_t> input = c.node().get_ints("input_shape", {});
  c.require(static_cast<int>(input.size()) == dy.rank() - 2, "P1",
            "input_shape {} needs one entry for each of {} spatial axes", graph::shape_str(input),
            dy.rank() - 2);
  require_outputs(c, pool::pool_window(c.node(), input), dy);
  c.set(0, dy.dtype, join(dy.dims[0], dy.dims[1], input));
}

// --- Gradient
// --------------------------------------------------------------------------------------------

// The node's window as explicit attributes.
graph::Attributes resolved(const GradientContext& c, const std::vector<int64_t>& in) {
  const Window window = pool::pool_window(c.node(), in);
  graph::Attributes attributes = window.attributes();
  attributes["kernel_shape"] = window.kernel;
  if (c.node().get_int("ceil_mode", 0) != 0) attributes["ceil_mode"] = int64_t{1};
  if (c.node().get_int("count_include_pad", 0) != 0) attributes["count_include_pad"] = int64_t{1};
  return attributes;
}

void max_gradient(GradientContext& c) {
  const auto attributes = resolved(c, spatial(c.x(0)->type));
  c.set(0, c.b().own("MaxPoolGrad", {c.x(0), c.dy(0)}, attributes));
}

void average_gradient(GradientContext& c) {
  const std::vector<int64_t> input = spatial(c.x(0)->type);
  auto attributes = resolved(c, input);
  attributes["input_shape"] = input;
  c.set(0, c.b().own("AveragePoolGrad", {c.dy(0)}, attributes));
}

// dx is linear in dy, and the mean is its transpose.
void average_grad_gradient(GradientContext& c) {
  c.set(0, c.b().op("AveragePool", {c.dy(0)}, resolved(c, spatial(c.y(0)->type))));
}

void lp_gradient(GradientContext& c) {
  auto attributes = resolved(c, spatial(c.x(0)->type));
  attributes["p"] = pool::LpNorm::of(c.node()).p;
  c.set(0, c.b().own("LpPoolGrad", {c.x(0), c.y(0), c.dy(0)}, attributes));
}

// --- Definition
// ------------------------------------------------------------------------------------------

// A window that starts at o * stride - pad reaches to its last tap.
std::vector<int64_t> cells_read(const Node& node, const std::vector<int64_t>& needed) {
  const std::vector<int64_t> in = spatial(node.input(0)->type);
  const Window w = pool::pool_window(node, in);
  std::vector<int64_t> read;
  for (int i = 0; i < w.axes(); ++i) {
    const int64_t last = (needed[i] - 1) * w.stride[i] - w.pad_begin[i] + w.extent(i);
    read.push_back(std::min(in[i], std::max<int64_t>(last, 0)));
  }
  return read;
}

BatchRole max_role(const Node& node, int) {
  return node.output(1) != nullptr ? BatchRole::kCouples : BatchRole::kRows;
}

OpDef forward_op(const char* name, const char* doc, std::vector<int> since) {
  OpDef op;
  op.name = name;
  op.doc = doc;
  op.since = std::move(since);
  op.inputs = {{"x"}};
  op.outputs = {{"y"}};
  op.batch = rows;
  op.narrow = Narrow::kFollows;
  return op;
}

OpDef max_op() {
  OpDef op = forward_op("MaxPool", "Maximum over a sliding window.", {1, 8, 10, 11, 12, 22});
  op.outputs.push_back({"indices", Presence::kOptional});
  op.attributes = {kKernelShape, kStrides, kDilations, kPads, kAutoPad, kCeilMode, kStorageOrder};
  op.infer = infer_max;
  op.gradient = gradient(max_gradient);
  op.cells_read = cells_read;
  op.batch = max_role;
  return op;
}

OpDef average_op() {
  OpDef op = forward_op("AveragePool", "Mean over a sliding window.", {1, 7, 10, 11, 19, 22});
  op.attributes = {kKernelShape, kStrides, kDilations, kPads, kAutoPad, kCeilMode, kCountPad};
  op.infer = infer_average;
  op.gradient = gradient(average_gradient);
  op.cells_read = cells_read;
  return op;
}

OpDef global_max_op() {
  OpDef op = forward_op("GlobalMaxPool", "Maximum over all spatial axes.", {1, 22});
  op.infer = infer_max;
  op.gradient = gradient(max_gradient);
  return op;
}

OpDef global_average_op() {
  OpDef op = forward_op("GlobalAveragePool", "Mean over all spatial axes.", {1, 22});
  op.infer = infer_average;
  op.gradient = gradient(average_gradient);
  return op;
}

OpDef lp_op() {
  OpDef op = forward_op("LpPool", "p-norm over a sliding window.", {1, 2, 11, 18, 22});
  op.attributes = {kKernelShape, kStrides, kDilations, kPads, kAutoPad, kCeilMode, kOrder};
  op.infer = infer_lp;
  op.gradient = gradient(lp_gradient);
  op.cells_read = cells_read;
  op.narrow = Narrow::kNo;
  return op;
}

OpDef global_lp_op() {
  OpDef op = forward_op("GlobalLpPool", "p-norm over all spatial axes.", {1, 2, 22});
  op.attributes = {kOrder};
  op.infer = infer_lp;
  op.gradient = gradient(lp_gradient);
  op.narrow = Narrow::kNo;
  return op;
}

OpDef max_grad_op() {
  OpDef op = gradient_op("MaxPoolGrad",
                         "Gradient of MaxPool: dy goes to the first maximum of each window of x.",
                         "MaxPool", {{"x"}, {"dy"}}, {{"dx"}}, infer_max_grad);
  op.attributes = {kKernelShape, kStrides, kDilations, kPads, kCeilMode};
  op.batch = rows_of_all;
  op.narrow = Narrow::kFollows;
  return op;
}

OpDef average_grad_op() {
  OpDef op =
      own_op("AveragePoolGrad", "Gradient of AveragePool: dy spread evenly over each window.",
             {{"dy"}}, {{"dx"}}, infer_average_grad);
  op.attributes = {kKernelShape, kStrides, kDilations, kPads, kCeilMode, kCountPad, kInputShape};
  op.gradient = gradient(average_grad_gradient);
  op.batch = rows;
  op.narrow = Narrow::kFollows;
  return op;
}

OpDef lp_grad_op() {
  OpDef op =
      gradient_op("LpPoolGrad", "Gradient of LpPool: each cell's part of the norms that it is in.",
                  "LpPool", {{"x"}, {"y"}, {"dy"}}, {{"dx"}}, infer_lp_grad);
  op.attributes = {kKernelShape, kStrides, kDilations, kPads, kCeilMode, kOrder};
  op.batch = rows_of_all;
  return op;
}

}  // namespace

void register_pool(OpRegistry& ops) {
  ops.add(max_op());
  ops.add(average_op());
  ops.add(global_max_op());
  ops.add(global_average_op());
  ops.add(lp_op());
  ops.add(global_lp_op());
  ops.add(max_grad_op());
  ops.add(average_grad_op());
  ops.add(lp_grad_op());
}

}  // namespace sardonyx::ops
