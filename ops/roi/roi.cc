// Pooling of regions: y[r,c,p,q] = mean or maximum of x[image of r, c] in bin (p,q) of region r
//
// RoiAlign    samples x between its cells: sampling_ratio^2 places a bin (0: as many per axis as
// the
//             bin is long, rounded up), each from the four cells around it; more than a cell
//             outside of the map a sample is 0. `avg` is the mean of the samples, `max` the largest
//             of all cell * weight (not of the samples), as ONNX's tests have it.
//   Inputs    x [N,C,H,W]   rois [R,4] (x1, y1, x2, y2)   batch_indices [R]   Output  y [R,C,P,Q]
// MaxRoiPool  rounds the region to cells, both ends included, and takes the largest cell of each
// bin
//             (a bin's ends are rounded outwards); a bin without a cell gives 0.
//   Inputs    x [N,C,H,W]   rois [R,5] (image, x1, y1, x2, y2)                Output  y [R,C,P,Q]
// R1 x is [N,C,H,W]                      R2 rois are [R,4] (MaxRoiPool: [R,5])
// R3 x and rois are of one floating type R4 batch_indices are int64, one per region
// R5 the sizes of y (output_height, output_width; pooled_shape) are >= 1, sampling_ratio >= 0
// R6 mode is avg or max, coordinate_transformation_mode half_pixel or output_half_pixel
// R7 images are 0 to N-1, coordinates finite; a bin has at most 2^20 samples per axis (asked for
//    when it runs)
// Old         RoiAlign-10 is output_half_pixel.
// Gradient    dx = RoiAlignGrad(x, rois, batch_indices, dy), MaxRoiPoolGrad(x, rois, dy): dy with
// the
//             weights of y, or to the first maximum. For the regions it is taken as zero, as
//             elsewhere: they are proposals, and rounded in MaxRoiPool.
// Batch       regions are no rows: couples.
// Source      ONNX RoiAlign-10, 16, 22, MaxRoiPool-1, 22
#include "ops/roi/roi.h"

#include "ops/core/axes.h"
#include "ops/core/definition.h"
#include "ops/core/elementwise.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/core/normalize.h"
#include "ops/core/one_type.h"
#include "ops/registry.h"

namespace sardonyx::ops {

namespace roi {

RoiGeometry::RoiGeometry(const Node& node, const TensorType& x, const TensorType& y)
    : images(x.dims[0].value),
      channels(x.dims[1].value),
      height(x.dims[2].value),
      width(x.dims[3].value),
      regions(y.dims[0].value),
      bins_y(y.dims[2].value),
      bins_x(y.dims[3].value),
      scale(node.get_float("spatial_scale", 1)) {}

AlignSettings AlignSettings::of(const Node& node) {
  const std::string mode = node.get_string("mode", "avg");
  const std::string corners = node.get_string("coordinate_transformation_mode", "half_pixel");
  if (mode != "avg" && mode != "max") {
    throw ConstraintError("R6", "mode is '{}', expected avg or max", mode);
  }
  if (corners != "half_pixel" && corners != "output_half_pixel") {
    throw ConstraintError("R6",
                          "coordinate_transformation_mode is '{}', expected half_pixel or "
                          "output_half_pixel",
                          corners);
  }
  const int64_t samples = node.get_int("sampling_ratio", 0);
  if (samples < 0 || samples > int64_t{1} << 20) {
    throw ConstraintError("R5", "sampling_ratio is {}, expected 0 to 2^20", samples);
  }
  return {mode == "avg" ? Pooling::kAverage : Pooling::kMaximum,
          corners == "half_pixel" ? Corners::kHalfPixel : Corners::kWhole, samples};
}

}  // namespace roi

namespace {

using roi::AlignSettings;

// --- Schema

const std::vector<AttributeDef> kAlign = {
    {"mode", "string, default avg: avg or max of the samples of a bin"},
    {"output_height", "int, default 1: bins along a region's height"},
    {"output_width", "int, default 1: bins along its width"},
    {"sampling_ratio", "int, default 0: samples per bin and axis; 0: as many as it is long"},
    {"spatial_scale", "float, default 1: cells of x per unit of rois"},
    {"coordinate_transformation_mode",
     "string, default half_pixel: half_pixel shifts regions by half a cell, output_half_pixel "
     "doesn't, and takes none smaller than a cell"},
};
const std::vector<AttributeDef> kMaxPool = {
    {"pooled_shape", "ints, required: bins along a region's height and width"},
    {"spatial_scale", "float, default 1: cells of x per unit of rois"},
};

void normalize_align(NormalizeContext& c) {
  if (c.opset() < 16) {
    c.node().attributes["coordinate_transformation_mode"] = std::string("output_half_pixel");
  }
}

// --- Shape

void require_operands(const InferContext& c, int64_t columns) {
  require_floating(c, 0, "R3");
  require_type_of(c, 1, 0, "R3");
  c.require(c.rank(0) < 0 || c.rank(0) == 4, "R1", "x is {}, expected [N,C,H,W]", c.type(0).str());
  c.require(c.rank(1) < 0 || (c.rank(1) == 2 && agree(c.dims(1)[1], Dim(columns))), "R2",
            "rois are {}, expected {} numbers for each region", c.type(1).str(), columns);
}

// Of RoiAlign and its gradient.
void require_images(const InferContext& c) {
  const TensorType& indices = c.type(2);
  c.require(indices.dtype == DType::kInt64, "R4", "batch_indices are {}, expected int64",
            graph::dtype_name(indices.dtype));
  if (!indices.ranked) return;
  c.require(indices.rank() == 1 && (c.rank(1) < 0 || agree(indices.dims[0], c.dims(1)[0])), "R4",
            "batch_indices are {}, expected one for each of the regions {}", indices.str(),
            c.type(1).str());
}

void set_bins(InferContext& c, int64_t bins_y, int64_t bins_x) {
  c.require(bins_y >= 1 && bins_x >= 1, "R5", "a region has {} x {} bins, expected at least 1",
            bins_y, bins_x);
  const Dim regions = c.rank(1) < 0 ? Dim() : c.dims(1)[0];
  const Dim channels = c.rank(0) < 0 ? Dim() : c.dims(0)[1];
  c.set(0, c.dtype(0), {regions, channels, Dim(bins_y), Dim(bins_x)});
}

void infer_align(InferContext& c) {
  require_operands(c, 4);
  require_images(c);
  AlignSettings::of(c.node());
  set_bins(c, c.node().get_int("output_height", 1), c.node().get_int("output_width", 1));
}

void infer_max(InferContext& c) {
  require_operands(c, 5);
  const std::vector<int64_t> bins = c.node().get_ints("pooled_shape", {});
  c.require(bins.size() == 2, "R5", "pooled_shape is {}, expected two sizes",
            graph::shape_str(bins));
  set_bins(c, bins[0], bins[1]);
}

void infer_align_grad(InferContext& c) {
  require_operands(c, 4);
  require_images(c);
  AlignSettings::of(c.node());
  c.set(0, c.type(0));
}

void infer_max_grad(InferContext& c) {
  require_operands(c, 5);
  c.set(0, c.type(0));
}

// --- Gradient

void align_gradient(GradientContext& c) {
  if (!c.wants(0)) return;
  c.set(0, c.b().own("RoiAlignGrad", {c.x(0), c.x(1), c.x(2), c.dy(0)}, c.node().attributes));
}

void max_gradient(GradientContext& c) {
  if (!c.wants(0)) return;
  c.set(0, c.b().own("MaxRoiPoolGrad", {c.x(0), c.x(1), c.dy(0)}, c.node().attributes));
}

// --- Definition

const Port kRois = {"rois", Presence::kRequired, "regions are given, their gradient is zero"};
const Port kImages = {"batch_indices", Presence::kRequired, "integer indices"};

OpDef align_op() {
  OpDef op;
  op.name = "RoiAlign";
  op.doc = "Pools regions of maps, sampled between their cells.";
  op.since = {10, 16, 22};
  op.inputs = {{"x"}, kRois, kImages};
  op.outputs = {{"y"}};
  op.attributes = kAlign;
  op.normalize = normalize_align;
  op.infer = infer_align;
  op.gradient = gradient(align_gradient);
  return op;
}

OpDef max_op() {
  OpDef op;
  op.name = "MaxRoiPool";
  op.doc = "Maximum over the bins of regions of maps.";
  op.since = {1, 22};
  op.inputs = {{"x"}, kRois};
  op.outputs = {{"y"}};
  op.attributes = kMaxPool;
  op.infer = infer_max;
  op.gradient = gradient(max_gradient);
  return op;
}

OpDef grad_op(const char* name, const char* doc, std::vector<Port> inputs,
              std::vector<AttributeDef> attributes, InferRule infer) {
  OpDef op = gradient_op(name, doc, "a pooling of regions", std::move(inputs), {{"dx"}}, infer);
  op.attributes = std::move(attributes);
  return op;
}

}  // namespace

void register_roi(OpRegistry& ops) {
  ops.add(align_op());
  ops.add(max_op());
  ops.add(grad_op("RoiAlignGrad", "Gradient of RoiAlign: dy to the cells around its samples.",
                  {{"x"}, kRois, kImages, {"dy"}}, kAlign, infer_align_grad));
  ops.add(grad_op("MaxRoiPoolGrad", "Gradient of MaxRoiPool: dy to the first maximum of each bin.",
                  {{"x"}, kRois, {"dy"}}, kMaxPool, infer_max_grad));
}

}  // namespace sardonyx::ops
