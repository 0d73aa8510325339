// Softmax and LogSoftmax: axes, the flattening of old opsets, extreme logits.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/core/normalize.h"
#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

using graph::Attributes;
using ops::BatchRole;

constexpr double kInf = std::numeric_limits<double>::infinity();
const std::vector<std::string> kPlain = {"softmax.ref", "softmax.vector"};
const std::vector<std::string> kAll = {"softmax.ref", "softmax.vector", "softmax.lanes"};

OpCase on(std::string op, OpInput x, Attributes attributes = {}) {
  return {.claim = op,
          .op = op,
          .inputs = {std::move(x)},
          .attributes = std::move(attributes),
          .must_run = kPlain};
}

// e^0, e^1, e^2 over their sum 11.107337927389695, and logarithms of that.
const std::vector<double> kSoft = {0.09003057317038046, 0.24472847105479764, 0.6652409557748218};
const std::vector<double> kLog = {-2.4076059644443806, -1.4076059644443804, -0.4076059644443804};

TEST(Softmax, normalises_the_last_axis_by_default) {
  OpCase c = on("Softmax", given(doubles({2, 3}, {0, 1, 2, 12, 11, 10})));
  c.expected = {doubles({2, 3}, {kSoft[0], kSoft[1], kSoft[2], kSoft[2], kSoft[1], kSoft[0]})};
  check_op(c);
  c = on("LogSoftmax", given(doubles({2, 3}, {0, 1, 2, 12, 11, 10})));
  c.expected = {doubles({2, 3}, {kLog[0], kLog[1], kLog[2], kLog[2], kLog[1], kLog[0]})};
  check_op(c);
}

TEST(Softmax, normalises_any_axis) {
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    for (int64_t axis : {-3, -2, -1, 0, 1, 2}) {
      check_op(on(op, random({2, 3, 4}, -2, 2), {{"axis", axis}}));
    }
    check_op(on(op, random({3, 40}, -2, 2)));  // more than one piece of a vector loop
    check_op(on(op, random({2, 3, 70}, -2, 2), {{"axis", int64_t{1}}}));
  }
}

TEST(Softmax, flattened_form_normalises_all_axes_behind) {
  OpCase c = on("Softmax", given(doubles({1, 3, 2}, {0, 1, 2, 0, 1, 2})),
                {{"axis", int64_t{1}}, {"flatten", int64_t{1}}});
  c.expected = {doubles({1, 3, 2}, {kSoft[0] / 2, kSoft[1] / 2, kSoft[2] / 2, kSoft[0] / 2,
                                    kSoft[1] / 2, kSoft[2] / 2})};
  check_op(c);
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    for (int64_t axis : {-1, 0, 1, 2, 3}) {
      OpCase old = on(op, random({2, 3, 4}), {{"axis", axis}, {"flatten", int64_t{1}}});
      if (axis == 3) old.zero_gradients = {0};  // groups of one element
      check_op(old);
    }
  }
}

TEST(Softmax, runs_by_rows_in_lanes_and_on_empty_batches) {
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    OpCase c = on(op, random({5, 3, 2}, -2, 2));
    c.batch = true;
    c.must_run = kAll;
    for (int64_t axis : {1, 2}) {
      c.attributes = {{"axis", axis}};
      check_op(c);
    }
    c.attributes = {{"axis", int64_t{1}}, {"flatten", int64_t{1}}};
    check_op(c);
  }
  for (const char* op : {"SoftmaxGrad", "LogSoftmaxGrad"}) {
    OpCase c = on(op, random({5, 3}, -2, 2));
    c.domain = ops::kDomain;
    c.inputs.push_back(random({5, 3}));
    c.batch = true;
    c.must_run = kAll;
    check_op(c);
  }
}

TEST(Softmax, over_the_batch_couples_rows) {
  OpCase c = on("Softmax", random({5, 3}), {{"axis", int64_t{0}}});
  c.batch = true;
  check_op(c);
  graph::Graph g;
  g.batch_symbol = "N";
  auto* x = g.add_input("x", ops::TensorType(DType::kFloat32, {graph::Dim(4, "N"), 3}));
  ops::OpBuilder b(g);
  const auto role = [&](Attributes attributes) {
    auto* y = b.op("Softmax", {x}, std::move(attributes));
    return ops::OpRegistry::get().at(*y->producer).batch(*y->producer, 0);
  };
  EXPECT_EQ(role({{"axis", int64_t{-2}}}), BatchRole::kCouples);
  EXPECT_EQ(role({{"axis", int64_t{0}}, {"flatten", int64_t{1}}}), BatchRole::kCouples);
  EXPECT_EQ(role({}), BatchRole::kRows);
}

TEST(Softmax, huge_and_infinite_logits_stay_exact) {
  OpCase c = on("Softmax", given(doubles({3, 2}, {1e4, 1e4, 1e4, -1e4, 3, -kInf})));
  c.expected = {doubles({3, 2}, {0.5, 0.5, 1, 0, 1, 0})};
  c.numeric = Numeric::kSkip;
  check_op(c);
  c = on("LogSoftmax", given(doubles({2, 2}, {1e4, 1e4, 1e4, -1e4})));
  c.expected = {doubles({2, 2}, {-std::log(2.0), -std::log(2.0), 0, -2e4})};
  c.numeric = Numeric::kSkip;
  check_op(c);
}

TEST(Softmax, nan_stays_in_its_row) {
  OpCase c = on("Softmax", given(doubles({2, 2}, {std::nan(""), 0, 0, 0})));
  c.expected = {doubles({2, 2}, {std::nan(""), std::nan(""), 0.5, 0.5})};
  c.differentiate = std::vector<int>{};
  check_op(c);
}

TEST(Softmax, one_class_has_probability_one_and_no_gradient) {
  OpCase c = on("Softmax", given(doubles({2, 1}, {5, -7})));
  c.expected = {doubles({2, 1}, {1, 1})};
  c.zero_gradients = {0};
  check_op(c);
}

TEST(Softmax, opsets_below_13_become_the_flattened_form) {
  graph::Graph g;
  auto* x = g.add_input("x", ops::TensorType(DType::kFloat32, {2, 3, 4}));
  auto* node = g.add_node("", "LogSoftmax", {x}, {"y"});
  ops::normalize_node(*node, 12);
  EXPECT_EQ(node->get_int("axis", 7), 1);
  EXPECT_EQ(node->get_int("flatten", 7), 1);
  auto* newer = g.add_node("", "Softmax", {x}, {"z"});
  ops::normalize_node(*newer, 13);
  EXPECT_TRUE(newer->attributes.empty());
}

TEST(Softmax, c1_rejects_integers) {
  EXPECT_NE(infer_error(on("Softmax", given(ints({2}, {1, 2})))).find("C1: input 0 is int64"),
            std::string::npos);
}

TEST(Softmax, c2_rejects_axes_out_of_range) {
  EXPECT_NE(infer_error(on("Softmax", random({2, 3}), {{"axis", int64_t{2}}}))
                .find("C2: axis 2 is out of range for a value with 2 axes"),
            std::string::npos);
  EXPECT_NE(infer_error(on("Softmax", random({2, 3}), {{"axis", int64_t{-3}}})).find("C2"),
            std::string::npos);
}

TEST(Softmax, c3_rejects_gradients_of_another_shape) {
  OpCase c = on("SoftmaxGrad", random({2, 3}));
  c.domain = ops::kDomain;
  c.inputs.push_back(random({2, 4}));
  EXPECT_NE(infer_error(c).find("C3"), std::string::npos);
}

TEST(Softmax, unknown_shapes_propagate) {
  graph::Graph g;
  auto* x = g.add_input("x", ops::TensorType(DType::kFloat32, {graph::Dim::named("N"), 3}));
  auto* y = g.add_input("y", ops::TensorType::unranked(DType::kFloat32));
  ops::OpBuilder b(g);
  EXPECT_EQ(b.op("Softmax", {x})->type.str(), "float[N,3]");
  EXPECT_FALSE(b.op("Softmax", {y})->type.ranked);
}

}  // namespace
}  // namespace sardonyx::test
