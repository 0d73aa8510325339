// Slices and pads with all axes and numbers resolved; private to the room.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ops/core/composed.h"
#include "ops/core/kernel.h"
#include "ops/core/op.h"
#include "ops/core/sizes.h"
#include "ops/core/strided.h"
#include "ops/slice_pad/pad_mode.h"

namespace sardonyx::ops {

// y[i] = x[starts + i * steps] along every axis.
struct SliceBox {
  std::vector<int64_t> starts, steps;
};

// One axis of size `dim` cut by ONNX's start, end and step.
struct SliceRange {
  int64_t start = 0;  // in [0, dim], or -1 .. dim - 1 for negative steps
  int64_t count = 0;
  int64_t step = 1;  // no longer than the axis
};
SliceRange slice_range(int64_t start, int64_t end, int64_t step, int64_t dim);
// Of a request of Slice (from its constant inputs) or SliceGrad (from its attributes).
SliceBox slice_box(const KernelRequest& request);
// What Slice copies from x, and what SliceGrad copies into dx, as stored.
StridedBox slice_copy(const KernelRequest& request);
StridedBox slice_grad_copy(const KernelRequest& request);

// Throws Error for other names.
PadMode pad_mode(const Node& node);

// One axis: `begin` and `end` elements are added (negative: cropped) around `dim`.
struct PadAxis {
  int64_t begin = 0, end = 0;
  int64_t dim = 0;

  bool identity() const { return begin == 0 && end == 0; }
  // Throws Error when the sum is beyond every size; the others can't be then.
  int64_t size() const { return checked_sum(checked_sum(dim, begin), end); }
  // What is left of the axis after cropping.
  int64_t first() const { return begin < 0 ? -begin : 0; }
  int64_t kept() const { return dim + (begin < 0 ? begin : 0) + (end < 0 ? end : 0); }
  // Element of x under element i of y; -1: the constant.
  int64_t source(int64_t i, PadMode mode) const;
};

// Of a request of Pad or PadGrad; axes of x in order.
std::vector<PadAxis> pad_axes(const KernelRequest& request);

// center_crop_pad.cc
void write_center_crop_pad(ComposeContext& context);
void register_center_crop_pad(OpRegistry& ops);

}  // namespace sardonyx::ops
