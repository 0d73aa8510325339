// NonMaxSuppression against ONNX Runtime.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

// Three boxes that overlap, two that do, one alone; scores of two classes.
const Tensor kBoxes = floats({1, 6, 4}, {0, 0,  1, 1,  0, 0.1F,  1, 1.1F,  0, -0.1F, 1, 0.9F,
                                         0, 10, 1, 11, 0, 10.1F, 1, 11.1F, 0, 100,   1, 101});
const Tensor kScores =
    floats({1, 2, 6}, {0.9F, 0.75F, 0.6F, 0.95F, 0.5F, 0.3F, 0.1F, 0.75F, 0.6F, 0.2F, 0.5F, 0.95F});

OpCase suppress(Tensor boxes, Tensor scores, std::vector<int64_t> most, std::vector<float> numbers,
                Tensor expected) {
  OpCase c;
  c.claim = "nms";
  c.op = "NonMaxSuppression";
  c.inputs = {constant(std::move(boxes)), constant(std::move(scores))};
  if (!most.empty()) c.inputs.push_back(constant_ints(std::move(most)));
  for (const float number : numbers) c.inputs.push_back(constant(floats({1}, {number})));
  c.expected = {std::move(expected)};
  c.must_run = {"non_max_suppression.ref"};
  return c;
}

TEST(NonMaxSuppression, keeps_the_best_of_boxes_that_overlap) {
  check_op(suppress(kBoxes, kScores, {3}, {0.5, 0.2},
                    ints({6, 3}, {0, 0, 3, 0, 0, 0, 0, 0, 5, 0, 1, 5, 0, 1, 1, 0, 1, 4})));
  check_op(
      suppress(kBoxes, kScores, {2}, {0.5}, ints({4, 3}, {0, 0, 3, 0, 0, 0, 0, 1, 5, 0, 1, 1})));
}

TEST(NonMaxSuppression, selects_none_without_a_number_of_boxes) {
  check_op(suppress(kBoxes, kScores, {}, {}, ints({0, 3}, {})));
  EXPECT_EQ(inferred_type(suppress(kBoxes, kScores, {}, {}, {})), "int64[0,3]");
}

TEST(NonMaxSuppression, reads_boxes_by_their_centre) {
  const Tensor boxes = floats({1, 3, 4}, {5, 5, 4, 4, 5.5, 5, 4, 4, 20, 20, 2, 2});
  const Tensor scores = floats({1, 1, 3}, {0.9F, 0.75F, 0.6F});
  for (const auto& [iou, y] : {std::pair{0.5F, ints({2, 3}, {0, 0, 0, 0, 0, 2})},
                               std::pair{0.8F, ints({3, 3}, {0, 0, 0, 0, 0, 1, 0, 0, 2})}}) {
    OpCase c = suppress(boxes, scores, {5}, {iou}, y);
    c.attributes = {{"center_point_box", int64_t{1}}};
    check_op(c);
  }
}

TEST(NonMaxSuppression, takes_corners_in_any_order_equal_scores_by_number_and_no_nan) {
  const Tensor boxes = floats({1, 3, 4}, {1, 1, 0, 0, 0, 0, 1, 1, 5, 5, 6, 6});
  check_op(
      suppress(boxes, floats({1, 1, 3}, {0.5, 0.5, NAN}), {5}, {0.5}, ints({1, 3}, {0, 0, 0})));
}

TEST(NonMaxSuppression, s1_s2_s3_reject_shapes_lists_and_data) {
  OpCase c = suppress(kBoxes, kScores, {3, 3}, {}, {});
  EXPECT_EQ(infer_error(c).find("S2: input 2 is int64[2], expected one element"), 0u);
  c = suppress(kBoxes, floats({1, 6}, std::vector<float>(6)), {3}, {}, {});
  EXPECT_EQ(infer_error(c).find(
                "S1: boxes float[1,6,4] and scores float[1,6] are not [B,N,4] and [B,C,N]"),
            0u);
  c = suppress(kBoxes, kScores, {3}, {}, {});
  c.inputs[1] = random({1, 2, 6});
  EXPECT_EQ(infer_error(c).find("input 1 (scores) 'x1' must be known before training starts"), 0u);
}

TEST(NonMaxSuppression, s4_rejects_more_boxes_than_can_be_compared) {
  const OpCase c = suppress(Tensor(DType::kFloat32, {1, 40000, 4}),
                            Tensor(DType::kFloat32, {1, 1, 40000}), {40000}, {}, {});
  EXPECT_EQ(infer_error(c).find(
                "S4: 1600000000 pairs of boxes to compare, at most 1000000000 are supported"),
            0u)
      << infer_error(c);
}

}  // namespace
}  // namespace sardonyx::test
