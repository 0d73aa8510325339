// Reorder: the same values in another layout. Relabel: the same bytes, which are the values in that
// layout as well. Nothing else changes a layout.
//
// Inputs   x [N,...], plain, in lanes of 16 images or with channels last    Output  y
// R1 to is "plain", "n16" or "channels_last"      R2 rank(x) >= 1, with channels last >= 3
// R3 Relabel: x has one channel or one cell, and doesn't lie in lanes
// Lanes behind the last image (padding) are left as they are on the way in, unless the layout of y
// promises zeros there, and never read on the way out.
// Gradient dx = Reorder(dy), Relabel(dy) back to the layout of x.
// Source   Sardonyx (assign_layouts writes these nodes)
#include "ops/core/definition.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/registry.h"

namespace sardonyx::ops {

namespace {

constexpr int32_t kLanes = 16;

// --- Schema
// ----------------------------------------------------------------------------------------------

const AttributeDef kTo = {
    "to", "string, required: \"plain\", \"n16\" (lanes of 16 images) or \"channels_last\""};

// --- Shape
// -----------------------------------------------------------------------------------------------

graph::Layout layout_of(const InferContext& c, int rank) {
  const std::string to = c.node().get_string("to", "");
  if (to == "n16") return graph::Layout::lanes(kLanes);
  if (to != "channels_last") {
    c.require(to == "plain", "R1", "to is '{}', expected plain, n16 or channels_last", to);
    return {};
  }
  c.require(rank >= 3, "R2", "x has no axes behind its channels");
  return graph::Layout::channels_last(rank);
}

void infer_reorder(InferContext& c) {
  TensorType y = c.type(0);
  c.require(!y.ranked || y.rank() >= 1, "R2", "x is a scalar: it has no axis of images");
  y.layout = layout_of(c, y.rank());
  c.set(0, std::move(y));
}

void infer_relabel(InferContext& c) {
  infer_reorder(c);
  const TensorType& x = c.type(0);
  const bool alike = x.is_static() && x.rank() >= 3 && x.layout.lane_count() == 0 &&
                     x.one_channel_or_cell() && c.node().get_string("to", "") != "n16";
  c.require(alike, "R3", "x is {}: its bytes mean something else in another layout", x.str());
}

// --- Gradient
// --------------------------------------------------------------------------------------------

void reorder_gradient(GradientContext& c) {
  const graph::Layout& layout = c.x(0)->type.layout;
  const char* back = layout.lane_count() == kLanes ? "n16"
                     : layout.channels_last()      ? "channels_last"
                                                   : "plain";
  c.set(0, c.b().own(c.node().op, {c.dy(0)}, {{"to", std::string(back)}}));
}

// --- Definition
// ------------------------------------------------------------------------------------------

OpDef reorder_op() {
  OpDef op = own_op("Reorder", "The same values in another memory layout.", {{"x"}}, {{"y"}},
                    infer_reorder);
  op.attributes = {kTo};
  op.gradient = gradient(reorder_gradient);
  op.batch = rows;
  return op;
}

OpDef relabel_op() {
  OpDef op = reorder_op();
  op.name = "Relabel";
  op.doc = "The same bytes in another memory layout, where they mean the same values.";
  op.infer = infer_relabel;
  op.view = true;
  return op;
}

}  // namespace

void register_reorder(OpRegistry& ops) {
  ops.add(reorder_op());
  ops.add(relabel_op());
}

}  // namespace sardonyx::ops
