// Col2Im: y[n,c,i] = sum of x[n, c*taps + t, l] over all blocks l and taps t that meet in cell i
//
// The transpose of cutting an image into blocks: what overlaps is added up. Im2Col, the private
// operator that cuts, is its gradient.
// Inputs   x [N, C*taps, L]   image_shape [a]   block_shape [a], both known        Output  y
// [N,C,image] B1 image_shape and block_shape have one length, 1 or more; image sizes >= 1 B2 taps
// (cells of a block) divides x.dim(1)       B3 L is the number of blocks in the image B4 x is of a
// floating type                        W1..W3, W5..W7 of ops/core/window.h Gradient dx = Im2Col(dy)
// of Im2Col: Col2Im. Nothing is read but sizes. Source   ONNX Col2Im-18
#include "ops/core/definition.h"
#include "ops/core/elementwise.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/core/window.h"
#include "ops/registry.h"

namespace sardonyx::ops {

namespace {

// --- Schema

const std::vector<AttributeDef> kWindow = {
    {"strides", "ints, default all 1: step from block to block"},
    {"dilations", "ints, default all 1: distance of a block's cells"},
    {"pads", "ints, default all 0: cells around the image, all begins, then all ends"}};

// --- Shape

// Known number of blocks and cells of a block.
struct Counts {
  int64_t taps, blocks;
};

Counts counts_of(const InferContext& c, const std::vector<int64_t>& image,
                 const std::vector<int64_t>& block) {
  c.require(!block.empty() && image.size() == block.size(), "B1",
            "image_shape is {}, block_shape {}: expected one size per axis in both",
            graph::shape_str(image), graph::shape_str(block));
  for (const std::vector<int64_t>* sizes : {&image, &block}) {
    for (const int64_t size : *sizes) {
      c.require(size >= 1, "B1", "image_shape is {}, block_shape {}: expected sizes of at least 1",
                graph::shape_str(image), graph::shape_str(block));
    }
  }
  const Window window = window_of(c.node(), image, block);
  return {window.taps(), window.out_cells()};
}

void infer_col2im(InferContext& c) {
  require_floating(c, 0, "B4");
  const auto sizes = c.known_ints(1), cells = c.known_ints(2);
  if (!sizes || !cells) return c.set_unranked(0, c.dtype(0));
  const std::vector<int64_t>&image = *sizes, &block = *cells;
  const auto [taps, blocks] = counts_of(c, image, block);
  std::vector<Dim> dims{Dim(), Dim()};
  if (c.rank(0) >= 0) {
    const std::vector<Dim>& x = c.dims(0);
    c.require(x.size() == 3, "B2", "x is {}, expected [N, channels * {}, {}]", c.type(0).str(),
              taps, blocks);
    c.require(!x[1].known() || x[1].value % taps == 0, "B2",
              "x is {}: a block of {} cells doesn't divide axis 1", c.type(0).str(), taps);
    c.require(!x[2].known() || x[2].value == blocks, "B3",
              "x is {}, but the image {} has {} blocks of {}", c.type(0).str(),
              graph::shape_str(image), blocks, graph::shape_str(block));
    dims = {x[0], x[1].known() ? Dim(x[1].value / taps) : Dim()};
  }
  dims.insert(dims.end(), image.begin(), image.end());
  c.set(0, c.dtype(0), std::move(dims));
}

void infer_im2col(InferContext& c) {
  require_floating(c, 0, "B4");
  const std::vector<int64_t> block = c.node().get_ints("block_shape", {});
  const std::vector<Dim>& y = c.dims(0);
  c.require(c.rank(0) >= 3, "B1", "the image is {}, expected rank 3 or more", c.type(0).str());
  const auto [taps, blocks] = counts_of(c, spatial(c.type(0)), block);
  c.set(0, c.dtype(0), {y[0], y[1].known() ? Dim(y[1].value * taps) : Dim(), Dim(blocks)});
}

// --- Gradient

void col2im_gradient(GradientContext& c) {
  if (!c.wants(0)) return;
  graph::Attributes attributes = c.node().attributes;
  attributes["block_shape"] = c.x(2)->data.to_ints();
  c.set(0, c.b().own("Im2Col", {c.dy(0)}, attributes));
}

void im2col_gradient(GradientContext& c) {
  if (!c.wants(0)) return;
  graph::Attributes attributes = c.node().attributes;
  attributes.erase("block_shape");
  Value* image = c.b().ints(spatial(c.x(0)->type));
  Value* block = c.b().ints(c.node().get_ints("block_shape", {}));
  c.set(0, c.b().op("Col2Im", {c.dy(0), image, block}, attributes));
}

// --- Definition

OpDef col2im_op() {
  OpDef op;
  op.name = "Col2Im";
  op.doc = "Adds up the blocks of an image where they overlap.";
  op.since = {18};
  op.inputs = {{"x"},
               {"image_shape", Presence::kRequired, "shape"},
               {"block_shape", Presence::kRequired, "shape"}};
  op.outputs = {{"y"}};
  op.attributes = kWindow;
  op.infer = infer_col2im;
  op.gradient = gradient(col2im_gradient);
  op.batch = rows;
  return op;
}

OpDef im2col_op() {
  OpDef op =
      own_op("Im2Col", "Gradient of Col2Im: the blocks of an image, zeros where they meet pads.",
             {{"y"}}, {{"x"}}, infer_im2col);
  op.attributes = kWindow;
  op.attributes.push_back({"block_shape", "ints, required: sizes of a block"});
  op.gradient = gradient(im2col_gradient);
  op.batch = rows;
  return op;
}

}  // namespace

void register_col2im(OpRegistry& ops) {
  ops.add(col2im_op());
  ops.add(im2col_op());
}

}  // namespace sardonyx::ops
