// NonMaxSuppression: of boxes that overlap, those with the best scores
//
// Per image and class the boxes are taken by descending score (equal ones: the first box), but not
// one whose intersection over union with a box taken before is larger than iou_threshold, none
// whose score isn't larger than score_threshold, and max_output_boxes_per_class at most. Inputs
// boxes [B,N,4]  scores [B,C,N]  max_output_boxes_per_class int64 (default 0)
//          iou_threshold (default 0)  score_threshold (default none), one element each
// Output   y int64 [n,3] of image, class, box
// S1 boxes and scores have one floating type and these shapes      S2 the others have one element
// S3 n is known before the run: all inputs are (ops/core/data_shape.h)
// S4 no more pairs of boxes than can be compared while a graph is read
// Gradient zero: nothing changes indices but a jump.
// Source   ONNX NonMaxSuppression-11
#include "ops/non_max_suppression/non_max_suppression.h"

#include "ops/core/axes.h"
#include "ops/core/data_shape.h"
#include "ops/core/elementwise.h"
#include "ops/core/one_type.h"
#include "ops/registry.h"

namespace sardonyx::ops {

namespace nms {

namespace {

constexpr double kMostPairs = 1e9;

// --- Shape

void require_shapes(const InferContext& c) {
  require_floating(c, kBoxes, "S1");
  require_type_of(c, kScores, kBoxes, "S1");
  for (int i = kMostBoxes; i < kInputs; ++i) {
    if (i != kMostBoxes) require_type_of(c, i, kBoxes, "S1");
    c.require(!c.has(i) || !c.type(i).is_static() || c.type(i).numel() == 1, "S2",
              "input {} is {}, expected one element", i, c.has(i) ? c.type(i).str() : "");
  }
  c.require(!c.has(kMostBoxes) || c.dtype(kMostBoxes) == DType::kInt64, "S2",
            "max_output_boxes_per_class is not int64");
  if (c.rank(kBoxes) < 0 || c.rank(kScores) < 0) return;
  const std::vector<Dim>&boxes = c.dims(kBoxes), &scores = c.dims(kScores);
  const bool fit = boxes.size() == 3 && scores.size() == 3 && agree(boxes[2], Dim(4)) &&
                   agree(boxes[0], scores[0]) && agree(boxes[1], scores[2]);
  c.require(fit, "S1", "boxes {} and scores {} are not [B,N,4] and [B,C,N]", c.type(kBoxes).str(),
            c.type(kScores).str());
}

int64_t count_selected(const Node& node, const Sizes& sizes, const void* const* inputs,
                       DType dtype) {
  std::vector<int64_t> order(sizes.boxes);
  int64_t count = 0;
  dispatch_float(dtype, [&]<class T>() {
    Selection<T>::of(node, sizes, inputs).run(order, [&](int64_t, int64_t, int64_t) { ++count; });
  });
  return count;
}

void infer_nms(InferContext& c) {
  require_shapes(c);
  const void* inputs[kInputs] = {};
  bool known = true;
  for (int i = kBoxes; i < kInputs; ++i) {
    const Tensor* tensor = c.has(i) ? shaping_data(c, i) : nullptr;
    if (tensor != nullptr) inputs[i] = tensor->aligned_data();
    known = known && (tensor != nullptr || !c.has(i));
  }
  Dim count;
  if (known) {
    const Sizes sizes = Sizes::of(c.type(kBoxes).shape(), c.type(kScores).shape());
    const int64_t most = c.has(kMostBoxes) ? c.ints(kMostBoxes)[0] : 0;
    const auto kept = static_cast<double>(std::clamp<int64_t>(most, 0, sizes.boxes));
    const double pairs = kept * static_cast<double>(c.type(kScores).numel());
    c.require(pairs <= kMostPairs, "S4", "{} pairs of boxes to compare, at most {} are supported",
              pairs, kMostPairs);
    count = Dim(count_selected(c.node(), sizes, inputs, c.dtype(kBoxes)));
  }
  c.set(0, DType::kInt64, {count, Dim(3)});
}

}  // namespace

}  // namespace nms

// --- Definition

void register_non_max_suppression(OpRegistry& ops) {
  OpDef op;
  op.name = "NonMaxSuppression";
  op.doc = "Of boxes that overlap, those with the best scores.";
  op.since = {10, 11};
  op.inputs = {{"boxes"},
               {"scores"},
               {"max_output_boxes_per_class", Presence::kOptional, "a number of boxes"},
               {"iou_threshold", Presence::kOptional},
               {"score_threshold", Presence::kOptional}};
  op.outputs = {{"selected_indices"}};
  op.attributes = {
      {"center_point_box",
       "int, default 0: boxes are two corners y, x; 1: the centre x, y, then width and "
       "height"}};
  op.infer = nms::infer_nms;
  op.gradient = zero_gradient("integer indices");
  ops.add(std::move(op));
}

}  // namespace sardonyx::ops
