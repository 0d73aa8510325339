// Reorder: the same values in another layout; the only operator that changes one.
//
// Inputs   x [N,...], plain or in lanes of 16 images            Output  y, as `to` says
// R1 to is "plain" or "n16"      R2 rank(x) >= 1
// Lanes behind the last image (padding) are left as they are on the way in, unless the layout of y
// promises zeros there, and never read on the way out.
// Gradient dx = Reorder(dy) back to the layout of x.
// Source   Sardonyx (assign_layouts writes these nodes)
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/registry.h"

namespace sardonyx::ops {

namespace {

constexpr int32_t kLanes = 16;

// --- Schema
// ----------------------------------------------------------------------------------------------

const AttributeDef kTo = {"to", "string, required: \"plain\" or \"n16\" (lanes of 16 images)"};

// --- Shape
// -----------------------------------------------------------------------------------------------

void infer_reorder(InferContext& c) {
  TensorType y = c.type(0);
  const std::string to = c.node().get_string("to", "");
  c.require(to == "plain" || to == "n16", "R1", "to is '{}', expected plain or n16", to);
  c.require(!y.ranked || y.rank() >= 1, "R2", "x is a scalar: it has no axis of images");
  y.layout = to == "plain" ? graph::Layout() : graph::Layout::lanes(kLanes);
  c.set(0, std::move(y));
}

// --- Gradient
// --------------------------------------------------------------------------------------------

void reorder_gradient(GradientContext& c) {
  const std::string back = c.x(0)->type.layout.lane_count() == kLanes ? "n16" : "plain";
  c.set(0, c.b().own("Reorder", {c.dy(0)}, {{"to", back}}));
}

// --- Definition
// ------------------------------------------------------------------------------------------

OpDef reorder_op() {
  OpDef op;
  op.domain = kDomain;
  op.name = "Reorder";
  op.doc = "The same values in another memory layout.";
  op.inputs = {{"x"}};
  op.outputs = {{"y"}};
  op.attributes = {kTo};
  op.infer = infer_reorder;
  op.gradient = gradient(reorder_gradient);
  op.batch = rows;
  return op;
}

}  // namespace

void register_reorder(OpRegistry& ops) { ops.add(reorder_op()); }

}  // namespace sardonyx::ops
