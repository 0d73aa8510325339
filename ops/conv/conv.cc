// Conv: y[n,m,p,q] = b[m] + sum_{c,r,s} x[n,c,p*sh-ph+r*dh, q*sw-pw+s*dw] * w[m,c,r,s]
//
// One to any number of spatial axes; c runs over the C/g channels of m's group.
// Inputs   x [N,C,H,W]  w [M,C/g,R,S]  b [M] (optional)          Output  y [N,M,P,Q]
// C1 rank(x) = rank(w) >= 3       C2 C = g * w.dim(1)      C3 g >= 1 and M mod g = 0
// C4 kernel_shape, if given, is that of w                  C5 b is [M]
// C6 x, w, b are of one floating type                      W1..W6 of ops/core/window.h
// Gradient dx = ConvGradData(w, dy)   dw = ConvGradFilter(x, dy)   db = ConvGradBias(dy)
//          reads x, w; does not read y, so y may be overwritten (Relu after Conv runs in place).
//          The three are operators of their own: pads are resolved, and what no input shows is an
//          attribute (input_shape: H,W of dx; kernel_shape: R,S of dw). All are linear, so that
//          ConvGradData and ConvGradFilter have gradients in the same family.
// Private  `needed` (ints, P' <= P, Q' <= Q): nothing reads the rest of y. A kernel may put zeros
//          there, and gradients may take dy as zero there.
// Source   ONNX Conv-11, Conv-22
#include "ops/conv/conv.h"

#include "ops/conv/conv_shape.h"
#include "ops/core/definition.h"
#include "ops/core/elementwise.h"
#include "ops/core/gradient.h"
#include "ops/core/one_type.h"
#include "ops/core/sizes.h"
#include "ops/registry.h"

namespace sardonyx::ops {

namespace conv {

namespace {

ConvGeometry geometry(const Node& node, const TensorType& x, const TensorType& w,
                      const TensorType& y) {
  ConvGeometry g;
  g.batch = x.dims[0].value;
  g.channels = x.dims[1].value;
  g.outputs = y.dims[1].value;
  g.groups = node.get_int("group", 1);
  g.window = node.op == kConvTranspose ? transposed_window(node, spatial(y), spatial(w))
                                       : window_of(node, spatial(x), spatial(w));
  CHECK(g.window.in == spatial(x), "{}: x is {}", node.label(), x.str());
  CHECK(g.window.out == spatial(y), "{}: y is {}", node.label(), y.str());
  g.needed = node.get_ints("needed", g.window.out);
  return g;
}

}  // namespace

double ConvGeometry::flops(const std::vector<int64_t>& cells) const {
  double count = 2.0 * static_cast<double>(batch) * static_cast<double>(filter_numel());
  for (const int64_t size : cells) count *= static_cast<double>(size);
  return count;
}

ConvGeometry ConvGeometry::forward(const KernelRequest& r) {
  return geometry(*r.node, r.in[0], r.in[1], r.out[0]);
}
ConvGeometry ConvGeometry::grad_data(const KernelRequest& r) {
  return geometry(*r.node, r.out[0], r.in[0], r.in[1]);
}
ConvGeometry ConvGeometry::grad_filter(const KernelRequest& r) {
  return geometry(*r.node, r.in[0], r.out[0], r.in[1]);
}

void require_float(const InferContext& c, int i) {
  require_floating(c, i, "C6");
  require_type_of(c, i, 0, "C6");
}

int64_t checked_groups(const InferContext& c) {
  const int64_t groups = c.node().get_int("group", 1);
  c.require(groups >= 1, "C3", "group is {}, expected at least 1", groups);
  return groups;
}

void require_groups(const InferContext& c, int64_t outputs, int64_t groups) {
  c.require(outputs < 0 || outputs % groups == 0, "C3",
            "group {} does not divide the {} output channels", groups, outputs);
}

std::vector<Dim> join(Dim first, Dim second, const std::vector<int64_t>& rest) {
  std::vector<Dim> dims{std::move(first), std::move(second)};
  for (const int64_t size : rest) dims.emplace_back(size);
  return dims;
}

std::vector<int64_t> kernel_sizes(const InferContext& c, const TensorType& w) {
  std::vector<int64_t> kernel = spatial(w);
  if (!c.node().has("kernel_shape")) return kernel;
  const std::vector<int64_t> given = c.node().get_ints("kernel_shape", {});
  bool fits = given.size() == kernel.size();
  for (size_t i = 0; fits && i < kernel.size(); ++i) {
    if (kernel[i] < 0) kernel[i] = given[i];
    fits = kernel[i] == given[i];
  }
  c.require(fits, "C4", "kernel_shape {} does not fit w {}", graph::shape_str(given),
            graph::shape_str(w.dims));
  return kernel;
}

BatchRole rows_unless(const Node& node, int filter) {
  return carries_batch(node, node.input(filter)) ? BatchRole::kCouples : BatchRole::kRows;
}

ParameterSlot conv_slot(int slot) {
  return slot == 1   ? ParameterSlot::kWeight
         : slot == 2 ? ParameterSlot::kBias
                     : ParameterSlot::kNone;
}

}  // namespace conv

namespace {

using conv::checked_groups;
using conv::conv_slot;
using conv::ConvGeometry;
using conv::join;
using conv::kernel_sizes;
using conv::require_float;
using conv::require_groups;
using conv::rows_unless;

// --- Schema
// ----------------------------------------------------------------------------------------------

const std::vector<AttributeDef> kWindowAttributes = {
    {"strides", "ints, default all 1: step of the window"},
    {"dilations", "ints, default all 1: distance of the kernel's taps"},
    {"pads", "ints, default all 0: zeros around x, all begins, then all ends"},
    {"group", "int, default 1: channels and outputs are cut into this many groups"},
    {"needed", "private ints, default all: cells of y per axis that anything reads",
     Writer::kRules},
};

std::vector<AttributeDef> with_window(std::vector<AttributeDef> more) {
  more.insert(more.begin(), kWindowAttributes.begin(), kWindowAttributes.end());
  return more;
}

// --- Shape
// -----------------------------------------------------------------------------------------------

// Attribute with one entry per spatial axis that a gradient operator can't do without.
std::vector<int64_t> required_sizes(const InferContext& c, const char* name, int rank) {
  std::vector<int64_t> sizes = c.node().get_ints(name, {});
  c.require(static_cast<int>(sizes.size()) == rank - 2, "C1",
            "{} {} needs one entry for each of {} spatial axes", name, graph::shape_str(sizes),
            rank - 2);
  return sizes;
}

void infer_conv(InferContext& c) {
  const TensorType& x = c.type(0);
  const TensorType& w = c.type(1);
  require_float(c, 0);
  require_float(c, 1);
  const int64_t groups = checked_groups(c);
  if (w.ranked) {
    c.require(w.rank() >= 3, "C1", "w has rank {} {}, expected at least 3", w.rank(),
              graph::shape_str(w.dims));
    require_groups(c, w.dims[0].value, groups);
  }
  if (c.has(2)) {
    require_float(c, 2);
    const TensorType& b = c.type(2);
    const bool fits =
        !b.ranked || (b.rank() == 1 && (!w.ranked || !b.dims[0].known() || !w.dims[0].known() ||
                                        b.dims[0].value == w.dims[0].value));
    c.require(fits, "C5", "b is {}, expected one number per output channel of w {}",
              graph::shape_str(b.dims), w.str());
  }
  if (!x.ranked || !w.ranked) return c.set_unranked(0, x.dtype);
  c.require(x.rank() == w.rank(), "C1", "x has rank {} {}, but w has rank {} {}", x.rank(),
            graph::shape_str(x.dims), w.rank(), graph::shape_str(w.dims));
  const int64_t channels = x.dims[1].value, taken = w.dims[1].value;
  const int64_t all_taken = taken < 0 ? -1 : checked_product(taken, groups);
  c.require(channels < 0 || taken < 0 || channels == all_taken, "C2",
            "x {} has {} channels, but w {} with group {} takes {}", graph::shape_str(x.dims),
            channels, graph::shape_str(w.dims), groups, all_taken);
  const Window window = window_of(c.node(), spatial(x), kernel_sizes(c, w));
  c.set(0, x.dtype, join(x.dims[0], Dim(w.dims[0].value), window.out));
}

// The y that a gradient operator gets must be the one that its attributes give.
void require_outputs(const InferContext& c, const Window& window, const TensorType& dy) {
  const std::vector<int64_t> got = spatial(dy);
  for (size_t i = 0; i < got.size(); ++i) {
    c.require(got[i] < 0 || window.out[i] < 0 || got[i] == window.out[i], "C1",
              "dy {} does not fit: expected {} along the spatial axes", graph::shape_str(dy.dims),
              graph::shape_str(window.out));
  }
}

void infer_grad_data(InferContext& c) {
  const TensorType& w = c.type(0);
  const TensorType& dy = c.type(1);
  require_float(c, 0);
  require_float(c, 1);
  const int64_t groups = checked_groups(c);
  if (!w.ranked || !dy.ranked) return c.set_unranked(0, w.dtype);
  c.require(w.rank() >= 3 && w.rank() == dy.rank(), "C1", "w is {}, but dy is {}", w.str(),
            dy.str());
  require_groups(c, w.dims[0].value, groups);
  c.require(w.dims[0].value < 0 || dy.dims[1].value < 0 || w.dims[0].value == dy.dims[1].value,
            "C2", "dy {} has {} channels, but w {} makes {}", graph::shape_str(dy.dims),
            dy.dims[1].value, graph::shape_str(w.dims), w.dims[0].value);
  const std::vector<int64_t> input = required_sizes(c, "input_shape", w.rank());
  require_outputs(c, window_of(c.node(), input, spatial(w)), dy);
  const int64_t taken = w.dims[1].value;
  c.set(0, w.dtype, join(dy.dims[0], Dim(taken < 0 ? -1 : checked_product(taken, groups)), input));
}

void infer_grad_filter(InferContext& c) {
  const TensorType& x = c.type(0);
  const TensorType& dy = c.type(1);
  require_float(c, 0);
  require_float(c, 1);
  const int64_t groups = checked_groups(c);
  if (!x.ranked || !dy.ranked) return c.set_unranked(0, x.dtype);
  c.require(x.rank() >= 3 && x.rank() == dy.rank(), "C1", "x is {}, but dy is {}", x.str(),
            dy.str());
  require_groups(c, dy.dims[1].value, groups);
  const int64_t channels = x.dims[1].value;
  c.require(channels < 0 || channels % groups == 0, "C2",
            "group {} does not divide the {} channels of x", groups, channels);
  const std::vector<int64_t> kernel = required_sizes(c, "kernel_shape", x.rank());
  require_outputs(c, window_of(c.node(), spatial(x), kernel), dy);
  c.set(0, x.dtype,
        join(Dim(dy.dims[1].value), Dim(channels < 0 ? -1 : channels / groups), kernel));
}

void infer_grad_bias(InferContext& c) {
  const TensorType& dy = c.type(0);
  require_float(c, 0);
  if (!dy.ranked) return c.set(0, dy.dtype, {Dim()});
  c.require(dy.rank() >= 3, "C1", "dy is {}, expected rank 3 or more", dy.str());
  c.set(0, dy.dtype, {Dim(dy.dims[1].value)});
}

// --- Gradient
// --------------------------------------------------------------------------------------------

// The window of node `c` with x and w of these types, as attributes with resolved pads.
graph::Attributes resolved(const GradientContext& c, const Value* x, const Value* w) {
  const Window window = window_of(c.node(), spatial(x->type), spatial(w->type));
  graph::Attributes attributes = window.attributes();
  attributes["group"] = c.node().get_int("group", 1);
  if (c.node().has("needed")) attributes["needed"] = c.node().get_ints("needed", {});
  return attributes;
}

graph::Attributes plus(graph::Attributes attributes, const char* name,
                       const std::vector<int64_t>& sizes) {
  attributes[name] = sizes;
  return attributes;
}

void conv_gradient(GradientContext& c) {
  const auto attributes = resolved(c, c.x(0), c.x(1));
  const std::vector<int64_t> input = spatial(c.x(0)->type), kernel = spatial(c.x(1)->type);
  if (c.wants(0)) {
    c.set(0, c.b().own("ConvGradData", {c.x(1), c.dy(0)}, plus(attributes, "input_shape", input)));
  }
  if (c.wants(1)) {
    c.set(1,
          c.b().own("ConvGradFilter", {c.x(0), c.dy(0)}, plus(attributes, "kernel_shape", kernel)));
  }
  if (c.wants(2)) c.set(2, c.b().own("ConvGradBias", {c.dy(0)}));
}

// dx(w, dy) is linear in both; g is the gradient of dx.
void grad_data_gradient(GradientContext& c) {
  const Value* dx = c.y(0);
  const auto attributes = resolved(c, dx, c.x(0));
  Value* g = c.dy(0);
  if (c.wants(0)) {
    c.set(0, c.b().own("ConvGradFilter", {g, c.x(1)},
                       plus(attributes, "kernel_shape", spatial(c.x(0)->type))));
  }
  if (c.wants(1)) c.set(1, c.b().op("Conv", {g, c.x(0)}, attributes));
}

// dw(x, dy) is linear in both; g is the gradient of dw.
void grad_filter_gradient(GradientContext& c) {
  const auto attributes = resolved(c, c.x(0), c.y(0));
  Value* g = c.dy(0);
  if (c.wants(0)) {
    c.set(0, c.b().own("ConvGradData", {g, c.x(1)},
                       plus(attributes, "input_shape", spatial(c.x(0)->type))));
  }
  if (c.wants(1)) c.set(1, c.b().op("Conv", {c.x(0), g}, attributes));
}

// --- Definition
// ------------------------------------------------------------------------------------------

// Only what is read of y counts, whatever a kernel computes.
template <ConvGeometry (*kDecode)(const KernelRequest&)>
double flops_of(const KernelRequest& request) {
  const ConvGeometry g = kDecode(request);
  return g.flops(g.needed);
}

// A sum over rows, as long as both operands are cut along them.
BatchRole sum_if_both(const Node& node, int) {
  const bool both = carries_batch(node, node.input(0)) && carries_batch(node, node.input(1));
  return both ? BatchRole::kSum : BatchRole::kCouples;
}

const Port kAccumulator = {"acc", Presence::kOptional, "accumulator of the gradient"};

OpDef conv_op() {
  OpDef op;
  op.name = "Conv";
  op.doc = "Convolution over any number of spatial axes, with groups and an optional bias.";
  op.since = {1, 11, 22};
  op.inputs = {{"x"}, {"w"}, {"b", Presence::kOptional}};
  op.outputs = {{"y"}};
  op.attributes = with_window(
      {{"auto_pad", "string, default NOTSET: VALID, SAME_UPPER or SAME_LOWER instead of pads"},
       {"kernel_shape", "ints, default from w: sizes of the kernel"}});
  op.infer = infer_conv;
  op.gradient = gradient(conv_gradient);
  op.batch = [](const Node& node, int) { return rows_unless(node, 1); };
  op.flops = flops_of<ConvGeometry::forward>;
  op.parameter_slot = conv_slot;
  op.fan = fan_of_kernel;
  op.skips_unneeded = true;
  op.narrow = Narrow::kProducts;
  return op;
}

OpDef grad_data_op() {
  OpDef op = own_op("ConvGradData", "Gradient of Conv with respect to x.", {{"w"}, {"dy"}},
                    {{"dx"}}, infer_grad_data);
  op.attributes = with_window({{"input_shape", "ints, required: spatial sizes of dx"}});
  op.gradient = gradient(grad_data_gradient);
  op.batch = [](const Node& node, int) { return rows_unless(node, 0); };
  op.flops = flops_of<ConvGeometry::grad_data>;
  return op;
}

OpDef grad_filter_op() {
  OpDef op = own_op("ConvGradFilter", "Gradient of Conv with respect to w, summed over the batch.",
                    {{"x"}, {"dy"}, kAccumulator}, {{"dw"}}, infer_grad_filter);
  op.attributes = with_window({{"kernel_shape", "ints, required: spatial sizes of dw"}});
  op.gradient = gradient(grad_filter_gradient);
  op.batch = sum_if_both;
  op.accumulate_input = 2;
  op.flops = flops_of<ConvGeometry::grad_filter>;
  return op;
}

OpDef grad_bias_op() {
  OpDef op = gradient_op("ConvGradBias",
                         "Gradient of Conv with respect to b: dy summed over the batch and space.",
                         "the bias of Conv", {{"dy"}, kAccumulator}, {{"db"}}, infer_grad_bias);
  op.batch = sums;
  op.accumulate_input = 1;
  op.sums_channels = true;
  return op;
}

}  // namespace

void register_conv(OpRegistry& ops) {
  ops.add(conv_op());
  ops.add(conv::conv_transpose_op());
  ops.add(grad_data_op());
  ops.add(grad_filter_op());
  ops.add(grad_bias_op());
}

}  // namespace sardonyx::ops
