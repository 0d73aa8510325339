// GridSample: x read between its cells, at the places that a grid names. (AffineGrid:
// affine_grid.cc.)
//
// y[n,c,o..] = sum over the cells i.. around the place of prod_a w_a(i_a) x[n,c,i..]; the place on
// axis a of x is grid[n,o..,r-1-a], -1 and 1 being the edges: the middles of the outermost cells
// (align_corners 1), or their outer sides
// Inputs   x [N,C,d1,..,dr]   grid [N,o1,..,or,r]                  Output  y [N,C,o1,..,or]
// G1 x and grid have one floating type    G2 the shapes fit, r is 1 to 3
// G3 mode is linear (2^r cells), nearest (1) or cubic (4^r); padding_mode zeros, border or
//    reflection
// G4 no axis of x is empty where anything is read
// Gradient dx = GridSampleGradData(dy, grid)   dgrid = GridSampleGradGrid(dy, x, grid): zero for
//          nearest, and where a place beyond the edge was brought back to the border (not cubic).
// Batch    rows. Not finite places are beyond the edge.
// Source   ONNX GridSample-22
#include "ops/grid_sample/grid_sample.h"

#include <span>

#include "ops/core/axes.h"
#include "ops/core/definition.h"
#include "ops/core/elementwise.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/core/normalize.h"
#include "ops/registry.h"

namespace sardonyx::ops {

namespace grid_sample {

// --- Schema

Settings Settings::of(const Node& node) {
  Settings s;
  const std::string mode = node.get_string("mode", "linear");
  const std::string padding = node.get_string("padding_mode", "zeros");
  if (mode == "nearest") {
    s.mode = Mode::kNearest;
  } else if (mode == "cubic") {
    s.mode = Mode::kCubic;
  } else if (mode != "linear") {
    throw ConstraintError("G3", "mode '{}' is none of linear, nearest, cubic", mode);
  }
  if (padding == "border") {
    s.padding = Padding::kBorder;
  } else if (padding == "reflection") {
    s.padding = Padding::kReflection;
  } else if (padding != "zeros") {
    throw ConstraintError("G3", "padding_mode '{}' is none of zeros, border, reflection", padding);
  }
  if (node.get_int("align_corners", 0) != 0) s.corners = Corners::kMiddles;
  return s;
}

namespace {

const std::vector<AttributeDef> kSettings = {
    {"mode", "string, default linear: linear, nearest or cubic"},
    {"padding_mode",
     "string, default zeros: what lies beyond the edges: zeros, border, reflection"},
    {"align_corners", "int, default 0: 1 makes -1 and 1 the middles of the outermost cells"}};

// The names of the modes before opset 20.
void normalize_grid_sample(NormalizeContext& c) {
  const std::string mode = c.node().get_string("mode", "linear");
  if (mode == "bilinear") c.node().attributes["mode"] = std::string("linear");
  if (mode == "bicubic") c.node().attributes["mode"] = std::string("cubic");
}

// --- Shape

// `spatial`: sizes of the axes of x.
void require_grid(const InferContext& c, int grid, const Dim& samples, size_t spatial) {
  if (c.rank(grid) < 0) return;
  const std::vector<Dim>& dims = c.dims(grid);
  const bool fits = spatial >= 1 && spatial <= kMostAxes && dims.size() == spatial + 2 &&
                    agree(dims[0], samples) &&
                    agree(dims.back(), Dim(static_cast<int64_t>(spatial)));
  c.require(fits, "G2", "grid {} doesn't fit {} samples with {} spatial axes", c.type(grid).str(),
            samples.value, spatial);
}

void require_one_float(const InferContext& c) {
  require_floating(c, 0, "G1");
  for (int i = 1; i < c.num_inputs(); ++i) {
    c.require(c.dtype(i) == c.dtype(0), "G1", "{} and {} are of two types", c.type(0).str(),
              c.type(i).str());
  }
}

void infer_grid_sample(InferContext& c) {
  Settings::of(c.node());
  require_one_float(c);
  const int rank = c.rank(0);
  if (rank < 0 || c.rank(1) < 0) return c.set_unranked(0, c.dtype(0));
  c.require(rank >= 3, "G2", "x is {}, expected samples, channels, then spatial axes",
            c.type(0).str());
  require_grid(c, 1, c.dims(0)[0], static_cast<size_t>(rank) - 2);
  const std::vector<Dim>& grid = c.dims(1);
  std::vector<Dim> dims = {merged(c.dims(0)[0], grid[0], c.node().graph()->batch_symbol),
                           c.dims(0)[1]};
  dims.insert(dims.end(), grid.begin() + 1, grid.end() - 1);
  for (const Dim& dim : std::span(c.dims(0)).subspan(2)) {
    c.require(dim.value != 0, "G4", "x is {}, which has no cells to read", c.type(0).str());
  }
  c.set(0, c.dtype(0), std::move(dims));
}

void infer_grad_data(InferContext& c) {
  Settings::of(c.node());
  require_one_float(c);
  const std::vector<int64_t> sizes = c.node().get_ints("input_shape", {});
  if (c.rank(0) < 0) return c.set_unranked(0, c.dtype(0));
  c.require(c.rank(0) == std::ssize(sizes) + 2, "G2", "dy {} doesn't fit an input of {}",
            c.type(0).str(), graph::shape_str(sizes));
  require_grid(c, 1, c.dims(0)[0], sizes.size());
  std::vector<Dim> dims = {c.dims(0)[0], c.dims(0)[1]};
  for (const int64_t size : sizes) dims.emplace_back(size);
  c.set(0, c.dtype(0), std::move(dims));
}

void infer_grad_grid(InferContext& c) {
  Settings::of(c.node());
  require_one_float(c);
  c.set(0, c.type(2));
  if (c.rank(1) < 0) return;
  c.require(c.rank(1) >= 3, "G2", "x is {}", c.type(1).str());
  require_grid(c, 2, c.dims(1)[0], static_cast<size_t>(c.rank(1)) - 2);
}

// --- Gradient

void grid_sample_gradient(GradientContext& c) {
  const graph::Attributes settings(c.node().attributes.begin(), c.node().attributes.end());
  if (c.wants(0)) {
    const std::vector<int64_t> x = GradientContext::shape(c.x(0));
    graph::Attributes attributes = settings;
    attributes["input_shape"] = std::vector<int64_t>(x.begin() + 2, x.end());
    c.set(0, c.b().own("GridSampleGradData", {c.dy(0), c.x(1)}, std::move(attributes)));
  }
  if (!c.wants(1)) return;
  if (Settings::of(c.node()).mode == Mode::kNearest) {
    return c.set(1, c.b().filled_like(c.x(1), 0));
  }
  c.set(1, c.b().own("GridSampleGradGrid", {c.dy(0), c.x(0), c.x(1)}, settings));
}

// --- Definition

OpDef grid_sample_op() {
  OpDef op;
  op.name = "GridSample";
  op.doc = "Reads between the cells of the input, at the places that a grid names.";
  op.since = {16, 20, 22};
  op.inputs = {{"X"}, {"grid"}};
  op.outputs = {{"Y"}};
  op.attributes = kSettings;
  op.normalize = normalize_grid_sample;
  op.infer = infer_grid_sample;
  op.gradient = gradient(grid_sample_gradient);
  op.batch = rows_of_all;
  return op;
}

OpDef grad_op(const char* name, const char* doc, std::vector<Port> inputs, const char* output,
              InferRule infer) {
  OpDef op = gradient_op(name, doc, "GridSample", std::move(inputs), {{output}}, infer);
  op.attributes = kSettings;
  op.batch = rows_of_all;
  return op;
}

}  // namespace

}  // namespace grid_sample

void register_grid_sample(OpRegistry& ops) {
  ops.add(grid_sample::grid_sample_op());
  OpDef data =
      grid_sample::grad_op("GridSampleGradData", "Adds dy to the cells that GridSample has read.",
                           {{"dy"}, {"grid"}}, "dx", grid_sample::infer_grad_data);
  data.attributes.push_back({"input_shape", "ints, required: sizes of the spatial axes of dx"});
  ops.add(std::move(data));
  ops.add(grid_sample::grad_op("GridSampleGradGrid",
                               "How y changes where GridSample reads elsewhere.",
                               {{"dy"}, {"x"}, {"grid"}}, "dgrid", grid_sample::infer_grad_grid));
  grid_sample::register_affine_grid(ops);
}

}  // namespace sardonyx::ops
