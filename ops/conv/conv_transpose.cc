// ConvTranspose: y[n,m,p,q] = b[m] + sum of x[n,c,h,w] * w[c,m,r,s] over all
//                p = h*sh - ph + r*dh, q = w*sw - pw + s*dw
//
// The data gradient of the convolution that makes x from y: its shapes, constraints and kernels are
// those of conv.cc with x and y exchanged. c runs over the C/g channels of m's group.
// Inputs   x [N,C,H,W]  w [C,M/g,R,S]  b [M] (optional)          Output  y [N,M,P,Q]
// C1 rank(x) = rank(w) >= 3       C2 C = w.dim(0)           C3 g >= 1 and C mod g = 0
// C4 kernel_shape, if given, is that of w                   C5 b is [M]
// C6 x, w, b are of one floating type                       W1..W4, W7 of ops/core/window.h
// T1 output_padding and output_shape have one entry per spatial axis, none negative
// T2 P, Q >= 1
// T3 less than a stride of y lies behind the last cell that x reaches
// Sizes    P = (H-1)*sh + (R-1)*dh + 1 + output_padding - pads. Where output_shape or SAME says P
//          (SAME: H*sh), the pads follow: with SAME_UPPER the larger half at the end, else in
//          front.
// Gradient dx = Conv(dy, w)   dw = ConvGradFilter(dy, x)   db = ConvGradBias(dy)
// Source   ONNX ConvTranspose-11, ConvTranspose-22
#include <algorithm>
#include <limits>

#include "ops/conv/conv.h"
#include "ops/conv/conv_shape.h"
#include "ops/core/axes.h"
#include "ops/core/gradient.h"
#include "ops/core/sizes.h"

namespace sardonyx::ops::conv {

namespace {

std::vector<int64_t> sizes_of(const Node& node, const char* attribute, size_t axes) {
  const std::vector<int64_t> sizes = node.get_ints(attribute, std::vector<int64_t>(axes, 0));
  const bool fits = sizes.size() == axes && std::ranges::all_of(sizes, [](int64_t size) {
                      return size >= 0 && size <= std::numeric_limits<int32_t>::max();
                    });
  if (!fits) {
    throw ConstraintError("T1", "{} is {}, expected one size for each of {} spatial axes",
                          attribute, graph::shape_str(sizes), axes);
  }
  return sizes;
}

// Size of y and the end pad along an axis whose begin pad is known. `reach`: cells of y, pads
// included, that windows over x cover.
void settle(Window& w, int axis, int64_t reach, int64_t size) {
  if (size < 1) {
    throw ConstraintError("T2",
                          "the output would be empty: spatial axis {} of size {} reaches {} cells, "
                          "but the pads take {} and {}",
                          axis, w.out[axis], reach, w.pad_begin[axis], w.pad_end[axis]);
  }
  const int64_t end = reach - size - w.pad_begin[axis];
  if (end <= -w.stride[axis]) {
    throw ConstraintError("T3",
                          "spatial axis {}: {} cells are asked for, but the window reaches {} only "
                          "and the stride is {}",
                          axis, size, reach - w.pad_begin[axis], w.stride[axis]);
  }
  if (checked_sum(reach, checked_sum(size, w.stride[axis])) > std::numeric_limits<int32_t>::max()) {
    throw ConstraintError("W7", "spatial axis {} is too long: {} cells with a window over {}", axis,
                          size, w.extent(axis));
  }
  w.in[axis] = size;
  w.pad_end[axis] = std::max<int64_t>(end, 0);
}

}  // namespace

Window transposed_window(const Node& node, std::vector<int64_t> x, std::vector<int64_t> kernel) {
  const size_t axes = kernel.size();
  Window w = window_of(node, std::vector<int64_t>(axes, -1), std::move(kernel));
  w.out = std::move(x);
  const std::string mode = node.get_string("auto_pad", "NOTSET");
  const bool same = mode.starts_with("SAME");
  const bool shaped = node.has("output_shape");
  const std::vector<int64_t> more = sizes_of(node, "output_padding", axes);
  const std::vector<int64_t> shape = sizes_of(node, "output_shape", axes);
  for (size_t i = 0; i < axes; ++i) {
    const int axis = static_cast<int>(i);
    if (w.out[i] < 0 || w.kernel[i] < 0) continue;
    const int64_t reach = checked_sum(checked_product(w.out[i] - 1, w.stride[i]), w.extent(axis));
    if (!same && !shaped) {
      settle(w, axis, reach, reach + more[i] - w.pad_begin[i] - w.pad_end[i]);
      continue;
    }
    const int64_t size = shaped ? shape[i] : checked_product(w.out[i], w.stride[i]);
    const int64_t pad = std::max<int64_t>(reach + more[i] - size, 0);
    w.pad_begin[i] = mode == "SAME_UPPER" ? pad / 2 : pad - pad / 2;
    settle(w, axis, reach, size);
  }
  return w;
}

namespace {

// --- Schema

const std::vector<AttributeDef> kAttributes = {
    {"strides", "ints, default all 1: step of the window in y"},
    {"dilations", "ints, default all 1: distance of the kernel's taps"},
    {"pads", "ints, default all 0: cells cut off y, all begins, then all ends"},
    {"group", "int, default 1: channels and outputs are cut into this many groups"},
    {"auto_pad", "string, default NOTSET: VALID, SAME_UPPER or SAME_LOWER instead of pads"},
    {"kernel_shape", "ints, default from w: sizes of the kernel"},
    {"output_padding", "ints, default all 0: cells more at the end of y"},
    {"output_shape", "ints, default from the pads: spatial sizes of y"},
};

// --- Shape

void require_bias(const InferContext& c, int64_t outputs) {
  if (!c.has(2)) return;
  require_float(c, 2);
  const TensorType& b = c.type(2);
  const Dim channels(outputs);
  c.require(!b.ranked || (b.rank() == 1 && agree(b.dims[0], channels)), "C5",
            "b is {}, expected {}: one number for each output channel", graph::shape_str(b.dims),
            graph::shape_str(std::vector<Dim>{channels}));
}

void infer_conv_transpose(InferContext& c) {
  const TensorType& x = c.type(0);
  const TensorType& w = c.type(1);
  require_float(c, 0);
  require_float(c, 1);
  const int64_t groups = checked_groups(c);
  if (!x.ranked || !w.ranked) {
    require_bias(c, -1);
    return c.set_unranked(0, x.dtype);
  }
  c.require(w.rank() >= 3 && x.rank() == w.rank(), "C1",
            "x has rank {} {}, but w has rank {} {}; both need at least 3", x.rank(),
            graph::shape_str(x.dims), w.rank(), graph::shape_str(w.dims));
  const int64_t channels = w.dims[0].value, share = w.dims[1].value;
  c.require(x.dims[1].value < 0 || channels < 0 || x.dims[1].value == channels, "C2",
            "x {} has {} channels, but w {} takes {}", graph::shape_str(x.dims), x.dims[1].value,
            graph::shape_str(w.dims), channels);
  c.require(channels < 0 || channels % groups == 0, "C3",
            "group {} does not divide the {} input channels", groups, channels);
  const int64_t outputs = share < 0 ? -1 : checked_product(share, groups);
  require_bias(c, outputs);
  const Window window = transposed_window(c.node(), spatial(x), kernel_sizes(c, w));
  c.set(0, x.dtype, join(x.dims[0], Dim(outputs), window.in));
}

// --- Gradient

void conv_transpose_gradient(GradientContext& c) {
  const std::vector<int64_t> kernel = spatial(c.x(1)->type);
  const Window window = transposed_window(c.node(), spatial(c.x(0)->type), kernel);
  graph::Attributes attributes = window.attributes();
  attributes["group"] = c.node().get_int("group", 1);
  if (c.wants(0)) c.set(0, c.b().op("Conv", {c.dy(0), c.x(1)}, attributes));
  if (c.wants(1)) {
    graph::Attributes filter = attributes;
    filter["kernel_shape"] = kernel;
    c.set(1, c.b().own("ConvGradFilter", {c.dy(0), c.x(0)}, std::move(filter)));
  }
  if (c.wants(2)) c.set(2, c.b().own("ConvGradBias", {c.dy(0)}));
}

}  // namespace

// --- Definition

OpDef conv_transpose_op() {
  OpDef op;
  op.name = kConvTranspose;
  op.doc = "Transposed convolution over any number of spatial axes, with groups and a bias.";
  op.since = {1, 11, 22};
  op.inputs = {{"x"}, {"w"}, {"b", Presence::kOptional}};
  op.outputs = {{"y"}};
  op.attributes = kAttributes;
  op.infer = infer_conv_transpose;
  op.gradient = gradient(conv_transpose_gradient);
  op.batch = [](const Node& node, int) { return rows_unless(node, 1); };
  op.flops = [](const KernelRequest& r) {
    const ConvGeometry g = ConvGeometry::transposed(r);
    return g.flops(g.needed);
  };
  op.parameter_slot = conv_slot;
  op.fan = fan_of_kernel;  // [in, out, ...], which torch.nn counts like this, too
  op.narrow = Narrow::kProducts;
  return op;
}

}  // namespace sardonyx::ops::conv
