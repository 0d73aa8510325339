// CenterCropPad: the middle of x where it is larger, x in the middle of zeros where it is smaller
//
// Inputs   x of any type    shape int32 or int64, constant: sizes of the listed axes
// Output   y. Of an odd number of elements too many, or zeros to add, the larger half is behind.
// M1 axes (default all) are in range, none twice    M2 a size from 0 on for each axis
// Gradient that of the Slice and the Pad it consists of.
// Source   ONNX CenterCropPad-18
#include <numeric>

#include "ops/core/axes.h"
#include "ops/core/infer.h"
#include "ops/slice_pad/slice_pad.h"

namespace sardonyx::ops {

namespace {

std::vector<int> listed_axes(const Node& node, int rank) {
  std::vector<int64_t> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  return checked_axes(node.get_ints("axes", axes), rank);
}

// --- Shape

void infer_center(InferContext& c) {
  const auto sizes = c.known_ints(1);
  if (c.rank(0) < 0) return c.set_unranked(0, c.dtype(0));
  const std::vector<int> axes = listed_axes(c.node(), c.rank(0));
  std::vector<Dim> dims = c.dims(0);
  if (!sizes) {
    for (const int axis : axes) dims[axis] = Dim();
    return c.set(0, c.dtype(0), std::move(dims));
  }
  c.require(sizes->size() == axes.size(), "M2", "{} sizes for {} axes", sizes->size(), axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t size = (*sizes)[i];
    c.require(size >= 0, "M2", "the size of axis {} is {}", axes[i], size);
    // An axis that stays whole keeps its symbol.
    if (dims[axes[i]].value != size) dims[axes[i]] = Dim(size);
  }
  c.set(0, c.dtype(0), std::move(dims));
}

}  // namespace

// --- Parts

void write_center_crop_pad(ComposeContext& c) {
  Value* x = c.x(0);
  const std::vector<int64_t> from = x->type.shape(), sizes = c.x(1)->data.to_ints();
  const std::vector<int> listed = listed_axes(c.node(), x->type.rank());
  std::vector<int64_t> cut, starts, ends, padded, before, behind;
  for (size_t i = 0; i < listed.size(); ++i) {
    const int64_t more = sizes[i] - from[listed[i]];
    if (more < 0) {
      cut.push_back(listed[i]);
      starts.push_back(-more / 2);
      ends.push_back(-more / 2 + sizes[i]);
    } else if (more > 0) {
      padded.push_back(listed[i]);
      before.push_back(more / 2);
      behind.push_back(more - more / 2);
    }
  }
  if (!cut.empty()) {
    x = c.b().op("Slice", {x, c.b().ints(starts), c.b().ints(ends), c.b().ints(cut)});
  }
  if (!padded.empty()) {
    before.insert(before.end(), behind.begin(), behind.end());
    x = c.b().op("Pad", {x, c.b().ints(before), nullptr, c.b().ints(padded)});
  }
  c.set(0, x);
}

// --- Definition

void register_center_crop_pad(OpRegistry& ops) {
  OpDef op;
  op.name = "CenterCropPad";
  op.doc = "Crops or pads axes evenly on both sides.";
  op.since = {18};
  op.inputs = {{"input_data"}, {"shape", Presence::kRequired, "integer sizes"}};
  op.outputs = {{"output_data"}};
  op.attributes = {{"axes", "ints, default all: the axes that shape speaks of"}};
  op.infer = infer_center;
  compose(op, write_center_crop_pad);
  ops.add(std::move(op));
}

}  // namespace sardonyx::ops
