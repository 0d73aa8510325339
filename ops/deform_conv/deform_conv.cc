// DeformConv: y[n,m,p,q] = b[m] + sum_{c,t} mask[n,t,p,q] * x[n,c, at] * w[m,c,t],
//             at = (p*sh - ph + r*dh, q*sw - pw + s*dw) + offset[n,t,:,p,q] for tap t = (r,s)
//
// x between cells is interpolated linearly; outside of the map it is 0. One to three spatial axes.
// Inputs   x [N,C,H,W]  w [M,C/g,R,S]  offset [N, og*R*S*2, P, Q]  b [M] (optional)
//          mask [N, og*R*S, P, Q] (optional: all 1)                         Output  y [N,M,P,Q]
//          Offsets are those of group, tap, axis, in this order; C/og channels share them.
// D1 rank(x) = rank(w) = 3 to 5       D2 C = g * w.dim(1)       D3 g >= 1 and M mod g = 0
// D4 kernel_shape, if given, is w's   D5 b is [M]               D6 all are of one floating type
// D7 og >= 1 and C mod og = 0         D8 offset has this shape  D9 mask has this shape
// W1..W3, W5..W7 of ops/core/window.h
// Parts    columns = DeformColumns(x, offset, mask) [N, C*R*S, P*Q], then MatMul(w, columns) and
// Add. Gradient that of the parts: dw, db of MatMul and Add, dx = DeformColumnsGradData(offset,
// mask,
//          dcolumns), (doffset, dmask) = DeformColumnsGradOffset(x, offset, mask, dcolumns). On a
//          cell the gradient to its offset is the one towards the next cell.
// Source   ONNX DeformConv-19, 22
#include "ops/deform_conv/deform_conv.h"

#include <algorithm>

#include "ops/core/axes.h"
#include "ops/core/definition.h"
#include "ops/core/elementwise.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/core/one_type.h"
#include "ops/core/sizes.h"
#include "ops/registry.h"

namespace sardonyx::ops {

namespace deform_conv {

ColumnGeometry::ColumnGeometry(const Node& node, const TensorType& x, const TensorType& columns)
    : batch(x.dims[0].value),
      channels(x.dims[1].value),
      groups(node.get_int("offset_group", 1)),
      taps(1),
      cells(columns.dims[2].value),
      map(1),
      window(window_of(node, spatial(x), node.get_ints("kernel_shape", {}))) {
  taps = window.taps();
  map = window.in_cells();
}

namespace {

// --- Schema

const std::vector<AttributeDef> kWindow = {
    {"strides", "ints, default all 1: step of the window"},
    {"dilations", "ints, default all 1: distance of the kernel's taps"},
    {"pads", "ints, default all 0: zeros around x, all begins, then all ends"},
    {"kernel_shape", "ints, default from w: sizes of the kernel"},
    {"offset_group", "int, default 1: groups of channels that share their offsets"}};

std::vector<AttributeDef> with_window(std::vector<AttributeDef> more) {
  more.insert(more.begin(), kWindow.begin(), kWindow.end());
  return more;
}

// --- Shape

void require_types(const InferContext& c) {
  require_floating(c, 0, "D6");
  require_one_type(c, 0, c.num_inputs() - 1, "D6");
}

int64_t checked_groups(const InferContext& c, const char* name, const char* constraint,
                       const Dim& channels) {
  const int64_t groups = c.node().get_int(name, 1);
  c.require(groups >= 1, constraint, "{} is {}, expected at least 1", name, groups);
  c.require(!channels.known() || channels.value % groups == 0, constraint,
            "{} {} does not divide the {} channels", name, groups, channels.value);
  return groups;
}

void require_shape(const InferContext& c, int input, const char* constraint,
                   const std::vector<Dim>& expected) {
  if (!c.has(input) || c.rank(input) < 0) return;
  const std::vector<Dim>& dims = c.dims(input);
  bool fits = dims.size() == expected.size();
  for (size_t i = 0; fits && i < dims.size(); ++i) fits = agree(dims[i], expected[i]);
  c.require(fits, constraint, "{} is {}, expected {}", input_label(c.node(), input),
            graph::shape_str(dims), graph::shape_str(expected));
}

std::vector<Dim> joined(Dim first, Dim second, const std::vector<int64_t>& rest) {
  std::vector<Dim> dims{std::move(first), std::move(second)};
  dims.insert(dims.end(), rest.begin(), rest.end());
  return dims;
}

void require_axes(const InferContext& c, int rank) {
  c.require(rank >= 3 && rank <= 2 + kMostAxes, "D1", "x is {}, expected one to three spatial axes",
            c.type(0).str());
}

// Offsets and mask, at these inputs, of a node whose x has these channels.
void require_places(const InferContext& c, int offset, int mask, const Dim& rows,
                    const Dim& channels, const Window& window) {
  const int64_t groups = checked_groups(c, "offset_group", "D7", channels);
  const bool known = std::ranges::count(window.kernel, -1) == 0;
  const int64_t places = known ? checked_product(groups, window.taps()) : -1;
  require_shape(c, offset, "D8",
                joined(rows, Dim(known ? checked_product(places, window.axes()) : -1), window.out));
  require_shape(c, mask, "D9", joined(rows, Dim(places), window.out));
}

std::vector<int64_t> kernel_sizes(const InferContext& c) {
  std::vector<int64_t> kernel = spatial(c.type(1));
  if (!c.node().has("kernel_shape")) return kernel;
  const std::vector<int64_t> given = c.node().get_ints("kernel_shape", {});
  bool fits = given.size() == kernel.size();
  for (size_t i = 0; fits && i < kernel.size(); ++i) {
    fits = given[i] >= 1 && agree(Dim(kernel[i]), Dim(given[i]));
  }
  c.require(fits, "D4", "kernel_shape {} does not fit w {}", graph::shape_str(given),
            c.type(1).str());
  return given;
}

void infer_deform_conv(InferContext& c) {
  require_types(c);
  if (c.rank(0) < 0 || c.rank(1) < 0) return c.set_unranked(0, c.dtype(0));
  const std::vector<Dim>&x = c.dims(0), &w = c.dims(1);
  require_axes(c, c.rank(0));
  c.require(x.size() == w.size(), "D1", "x is {}, but w is {}", c.type(0).str(), c.type(1).str());
  const int64_t groups = checked_groups(c, "group", "D3", w[0]);
  c.require(!x[1].known() || !w[1].known() || x[1].value == checked_product(w[1].value, groups),
            "D2", "x is {}, but w {} with group {} takes {} channels", c.type(0).str(),
            c.type(1).str(), groups, checked_product(w[1].value, groups));
  require_shape(c, 3, "D5", {w[0]});
  const Window window = window_of(c.node(), spatial(c.type(0)), kernel_sizes(c));
  require_places(c, 2, 4, x[0], x[1], window);
  c.set(0, c.dtype(0), joined(x[0], Dim(w[0].value), window.out));
}

Window column_window(const InferContext& c, const std::vector<int64_t>& map) {
  const std::vector<int64_t> kernel = c.node().get_ints("kernel_shape", {});
  c.require(kernel.size() == map.size(), "D4", "kernel_shape {} needs one entry per spatial axis",
            graph::shape_str(kernel));
  return window_of(c.node(), map, kernel);
}

void infer_columns(InferContext& c) {
  require_types(c);
  if (c.rank(0) < 0) return c.set_unranked(0, c.dtype(0));
  require_axes(c, c.rank(0));
  const std::vector<Dim>& x = c.dims(0);
  const Window window = column_window(c, spatial(c.type(0)));
  require_places(c, 1, 2, x[0], x[1], window);
  const bool known = std::ranges::count(window.out, -1) == 0;
  c.set(0, c.dtype(0),
        {x[0], x[1].known() ? Dim(checked_product(x[1].value, window.taps())) : Dim(),
         known ? Dim(window.out_cells()) : Dim()});
}

void infer_grad_data(InferContext& c) {
  require_types(c);
  const std::vector<int64_t> map = c.node().get_ints("input_shape", {});
  const Window window = column_window(c, map);
  const TensorType& columns = c.type(2);
  if (!columns.ranked) return c.set_unranked(0, c.dtype(0));
  c.require(columns.rank() == 3, "D1", "columns are {}, expected rank 3", columns.str());
  const std::vector<Dim>& dims = columns.dims;
  c.set(0, c.dtype(0),
        joined(dims[0], dims[1].known() ? Dim(dims[1].value / window.taps()) : Dim(), map));
}

void infer_grad_offset(InferContext& c) {
  require_types(c);
  c.set(0, c.type(1));
  c.set(1, c.has(2) ? c.type(2) : c.type(1));
}

// --- Gradient

void columns_gradient(GradientContext& c) {
  graph::Attributes attributes = c.node().attributes;
  if (c.wants(1) || c.wants(2)) {
    const char* mask = c.wants(2) ? "dmask" : "";
    Node* node = c.b().node(kDomain, "DeformColumnsGradOffset", {c.x(0), c.x(1), c.x(2), c.dy(0)},
                            {"doffset", mask}, attributes);
    if (c.wants(1)) c.set(1, node->output(0));
    if (c.wants(2)) c.set(2, node->output(1));
  }
  if (c.wants(0)) {
    attributes["input_shape"] = spatial(c.x(0)->type);
    c.set(0, c.b().own("DeformColumnsGradData", {c.x(1), c.x(2), c.dy(0)}, std::move(attributes)));
  }
}

}  // namespace

void write_deform_conv(ComposeContext& c) {
  const std::vector<int64_t> w = c.x(1)->type.shape(), y = c.node().output(0)->type.shape();
  const int64_t groups = c.node().get_int("group", 1);
  graph::Attributes attributes = c.node().attributes;
  attributes.erase("group");
  attributes["kernel_shape"] = spatial(c.x(1)->type);
  OpBuilder& b = c.b();
  const auto reshape = [&](Value* value, const std::vector<int64_t>& shape) {
    return b.op("Reshape", {value, b.ints(shape)});
  };
  Value* columns = b.own("DeformColumns", {c.x(0), c.x(2), c.x(4)}, attributes);
  int64_t length = 1, cells = 1;  // of a row of w, of a map of y
  for (size_t i = 1; i < w.size(); ++i) length *= w[i];
  for (size_t i = 2; i < y.size(); ++i) cells *= y[i];
  Value* rows = nullptr;
  if (groups == 1) {
    rows = reshape(c.x(1), {w[0], length});
  } else {
    rows = reshape(c.x(1), {groups, w[0] / groups, length});
    columns = reshape(columns, {0, groups, length, cells});
  }
  std::vector<int64_t> shape{0, w[0]};
  shape.insert(shape.end(), y.begin() + 2, y.end());
  Value* sum = reshape(b.op("MatMul", {rows, columns}), shape);
  if (Value* bias = c.x(3)) {
    std::vector<int64_t> spread(y.size() - 1, 1);
    spread[0] = w[0];
    sum = b.op("Add", {sum, reshape(bias, spread)});
  }
  c.set(0, sum);
}

namespace {

// --- Definition

OpDef deform_conv_op() {
  OpDef op;
  op.name = "DeformConv";
  op.doc = "Convolution whose taps lie where a second operand says.";
  op.since = {19, 22};
  op.inputs = {{"x"}, {"w"}, {"offset"}, {"b", Presence::kOptional}, {"mask", Presence::kOptional}};
  op.outputs = {{"y"}};
  op.attributes = with_window(
      {{"group", "int, default 1: channels and outputs are cut into this many groups"}});
  op.infer = infer_deform_conv;
  op.batch = [](const Node& node, int slot) {
    return carries_batch(node, node.input(1)) ? BatchRole::kCouples : rows_of_all(node, slot);
  };
  op.parameter_slot = [](int slot) {
    return slot == 1   ? ParameterSlot::kWeight
           : slot == 3 ? ParameterSlot::kBias
                       : ParameterSlot::kNone;
  };
  op.fan = fan_of_kernel;
  compose(op, write_deform_conv);
  return op;
}

OpDef columns_op(const char* name, const char* doc, std::vector<Port> inputs,
                 std::vector<Port> outputs, InferRule infer) {
  OpDef op = gradient_op(name, doc, "DeformConv", std::move(inputs), std::move(outputs), infer);
  op.attributes = kWindow;
  op.batch = rows_of_all;
  return op;
}

}  // namespace

}  // namespace deform_conv

void register_deform_conv(OpRegistry& ops) {
  using namespace deform_conv;
  const Port mask{"mask", Presence::kOptional};
  ops.add(deform_conv_op());
  OpDef columns = columns_op("DeformColumns", "What the taps of a DeformConv read, times the mask.",
                             {{"x"}, {"offset"}, mask}, {{"columns"}}, infer_columns);
  columns.gradient = gradient(columns_gradient);
  ops.add(std::move(columns));
  OpDef data = columns_op("DeformColumnsGradData", "Gradient of DeformColumns to x.",
                          {{"offset"}, mask, {"dcolumns"}}, {{"dx"}}, infer_grad_data);
  data.attributes.push_back({"input_shape", "ints, required: spatial sizes of dx"});
  ops.add(std::move(data));
  ops.add(columns_op("DeformColumnsGradOffset", "Gradient of DeformColumns to offset and mask.",
                     {{"x"}, {"offset"}, mask, {"dcolumns"}},
                     {{"doffset"}, {"dmask", Presence::kOptional}}, infer_grad_offset));
}

}  // namespace sardonyx::ops
