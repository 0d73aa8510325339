// Expected numbers are small exact results, worked out by hand.
#include <gtest/gtest.h>

#include <limits>

#include "ops/core/normalize.h"
#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

using Axes = std::vector<int64_t>;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
const graph::Attributes kDrop = {{"keepdims", int64_t{0}}};

OpCase reduction(std::string op, OpInput x, std::optional<Axes> axes,
                 graph::Attributes attributes = {}) {
  OpCase c;
  c.claim = fmt::format("{} {}", op, axes ? graph::shape_str(*axes) : "of all");
  c.op = std::move(op);
  c.inputs = {std::move(x)};
  if (axes) c.inputs.push_back(constant_ints(*axes));
  c.attributes = std::move(attributes);
  return c;
}

const Tensor kSix = floats({2, 3}, {1, 2, 3, 4, 5, 6});

TEST(Reduce, sums_of_six_numbers) {
  OpCase c = reduction("ReduceSum", given(kSix), Axes{0});
  c.expected = {floats({1, 3}, {5, 7, 9})};
  c.dy = {floats({1, 3}, {1, 2, 3})};
  c.expected_gradients = {floats({2, 3}, {1, 2, 3, 1, 2, 3})};
  c.must_run = {"reduce.ref", "reduce.sum"};
  check_op(c);
  c = reduction("ReduceSum", given(kSix), Axes{-1}, kDrop);
  c.expected = {floats({2}, {6, 15})};
  check_op(c);
  c = reduction("ReduceSum", given(kSix), std::nullopt, kDrop);
  c.expected = {floats({}, {21})};
  check_op(c);
}

TEST(Reduce, means_of_six_numbers) {
  OpCase c = reduction("ReduceMean", given(kSix), Axes{1});
  c.expected = {floats({2, 1}, {2, 5})};
  c.dy = {floats({2, 1}, {3, 6})};
  c.expected_gradients = {floats({2, 3}, {1, 1, 1, 2, 2, 2})};
  check_op(c);
}

TEST(Reduce, products_and_extremes_of_six_numbers) {
  OpCase c = reduction("ReduceProd", given(kSix), Axes{1}, kDrop);
  c.expected = {floats({2}, {6, 120})};
  check_op(c);
  c = reduction("ReduceMax", given(kSix), Axes{0}, kDrop);
  c.expected = {floats({3}, {4, 5, 6})};
  check_op(c);
  c = reduction("ReduceMin", given(kSix), std::nullopt);
  c.expected = {floats({1, 1}, {1})};
  check_op(c);
}

TEST(Reduce, no_axes_mean_all_of_them_or_none) {
  const graph::Attributes noop = {{"noop_with_empty_axes", int64_t{1}}};
  OpCase c = reduction("ReduceSum", given(kSix), Axes{});
  c.expected = {floats({1, 1}, {21})};
  check_op(c);
  c = reduction("ReduceSum", given(kSix), Axes{}, noop);
  c.expected = {kSix};
  check_op(c);
  c = reduction("ReduceMean", given(kSix), std::nullopt, noop);
  c.expected = {kSix};
  check_op(c);
}

TEST(Reduce, norms_and_logarithms_of_six_numbers) {
  const auto row_of = [](std::string op, std::vector<float> expected) {
    OpCase c = reduction(std::move(op), given(floats({2, 2}, {3, -4, 1, 0})), Axes{1}, kDrop);
    c.expected = {floats({2}, expected)};
    c.numeric = Numeric::kSkip;  // |x| at 0
    c.dy = {floats({2}, {10, 20})};
    return c;
  };
  OpCase c = row_of("ReduceL1", {7, 1});
  c.expected_gradients = {floats({2, 2}, {10, -10, 20, 0})};
  check_op(c);
  c = row_of("ReduceL2", {5, 1});
  c.expected_gradients = {floats({2, 2}, {6, -8, 20, 0})};
  check_op(c);
  c = row_of("ReduceSumSquare", {25, 1});
  c.expected_gradients = {floats({2, 2}, {60, -80, 40, 0})};
  check_op(c);
  c = row_of("ReduceLogSumExp", {3.00091147f, 1.31326169f});
  c.expected_gradients = {floats({2, 2}, {9.99088949f, 0.00911051194f, 14.6211716f, 5.37882843f})};
  check_op(c);
  c = reduction("ReduceLogSum", given(floats({2, 2}, {3, 1, 0.5f, 0})), Axes{1}, kDrop);
  c.expected = {floats({2}, {1.38629436f, -0.693147181f})};
  c.dy = {floats({2}, {8, 3})};
  c.expected_gradients = {floats({2, 2}, {2, 2, 6, 6})};
  check_op(c);
}

TEST(Reduce, norms_and_logarithms_over_any_axes) {
  for (const char* op :
       {"ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"}) {
    for (const std::optional<Axes>& axes :
         std::vector<std::optional<Axes>>{std::nullopt, Axes{0}, Axes{-1, 0}}) {
      check_op(reduction(op, random({3, 2, 4}, 0.25, 2), axes));
      check_op(reduction(op, random({3, 2, 4}, 0.25, 2), axes, kDrop));
    }
    OpCase rows = reduction(op, random({3, 4}, 0.25, 2), Axes{1});
    rows.batch = true;
    check_op(rows);
  }
}

TEST(Reduce, log_sum_exp_of_huge_and_of_no_numbers_is_finite_where_it_can_be) {
  OpCase c = reduction("ReduceLogSumExp",
                       given(floats({4, 2}, {1000, 1000, -1000, -1000, kInf, 1, kNan, 1})), Axes{1},
                       kDrop);
  c.expected = {floats({4}, {1000.69315f, -999.306853f, kInf, kNan})};
  c.differentiate = std::vector<int>{};
  check_op(c);
  c = reduction("ReduceLogSumExp", given(floats({1, 0}, {})), Axes{1}, kDrop);
  c.expected = {floats({1}, {-kInf})};
  c.differentiate = std::vector<int>{};
  check_op(c);
}

TEST(Reduce, the_norm_of_a_zero_vector_has_gradient_zero) {
  OpCase c = reduction("ReduceL2", given(floats({2, 2}, {0, 0, 3, 4})), Axes{1});
  c.numeric = Numeric::kSkip;
  c.dy = {floats({2, 1}, {7, 5})};
  c.expected_gradients = {floats({2, 2}, {0, 0, 3, 4})};
  check_op(c);
}

TEST(Reduce, norms_of_integers_are_integers) {
  for (const auto& [op, expected] :
       {std::pair{"ReduceL1", 7}, {"ReduceSumSquare", 25}, {"ReduceL2", 5}}) {
    OpCase c = reduction(op, given(ints({2}, {3, -4})), Axes{0}, kDrop);
    c.expected = {ints({}, {expected})};
    check_op(c);
  }
}

TEST(Reduce, any_set_of_axes) {
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"}) {
    for (int mask = 0; mask < 16; ++mask) {
      Axes axes;
      for (int axis = 0; axis < 4; ++axis) {
        if ((mask >> axis & 1) != 0) axes.push_back(mask % 3 == 0 ? axis - 4 : axis);
      }
      OpCase c = reduction(op, random({2, 3, 2, 3}), axes);
      if (mask % 2 == 1) c.attributes = kDrop;
      c.attributes["noop_with_empty_axes"] = int64_t{1};
      check_op(c);
    }
  }
}

TEST(Reduce, sums_in_lanes_over_any_axes) {
  for (const char* op : {"ReduceSum", "ReduceMean"}) {
    for (const Axes& axes : std::vector<Axes>{{0},
                                              {0, 2, 3},
                                              {0, 1, 2, 3},
                                              {1},
                                              {2, 3},
                                              {1, 2, 3},
                                              {3},
                                              {0, 1},
                                              {0, 2},
                                              {0, 3},
                                              {1, 3}}) {
      OpCase c = reduction(op, random({5, 3, 4, 2}), axes, kDrop);
      c.batch = true;
      if (axes != Axes{1, 3}) c.must_run = {"reduce.lanes"};
      if (std::string(op) == "ReduceMean" && axes[0] == 0) c.empty_batch = false;
      check_op(c);
    }
  }
}

TEST(Reduce, bias_gradients_in_lanes) {
  OpCase linear = reduction("ReduceSum", random({37, 70}), Axes{0}, kDrop);
  linear.batch = true;
  linear.differentiate = std::vector<int>{};
  linear.must_run = {"reduce.lanes", "reduce.sum"};
  check_op(linear);
  OpCase conv = reduction("ReduceSum", random({37, 3, 9, 9}), Axes{0, 2, 3}, kDrop);
  conv.batch = true;
  conv.differentiate = std::vector<int>{};
  conv.must_run = {"reduce.lanes", "reduce.sum"};
  check_op(conv);
}

TEST(Reduce, long_sums_are_exact_and_cut_between_threads) {
  for (const Axes& axes : std::vector<Axes>{{0, 1}, {0}, {1}}) {
    OpCase c = reduction("ReduceSum", random({33, 7001}), axes);
    c.differentiate = std::vector<int>{};
    c.float_tolerance = {2e-7, 1e-4};
    check_op(c);
  }
  OpCase c = reduction("ReduceSum", random({50, 2, 900}), Axes{0, 2});
  c.differentiate = std::vector<int>{};
  c.float_tolerance = {2e-7, 1e-4};
  check_op(c);
}

TEST(Reduce, a_batch_of_no_rows) {
  const OpInput none = given(Tensor(graph::DType::kFloat32, {0, 2}));
  const auto check = [&](const char* op, float y) {
    OpCase c = reduction(op, none, Axes{0}, kDrop);
    c.expected = {floats({2}, {y, y})};
    c.differentiate = std::vector<int>{};
    check_op(c);
  };
  check("ReduceSum", 0);
  check("ReduceMean", kNan);
  check("ReduceProd", 1);
  check("ReduceMax", -kInf);
  check("ReduceMin", kInf);
}

TEST(Reduce, the_sum_over_rows_is_a_sum_and_the_rest_keeps_or_couples_rows) {
  const auto role = [](const char* op, const Axes& axes) {
    graph::Graph g;
    g.batch_symbol = "N";
    ops::OpBuilder b(g);
    graph::Value* x = g.add_input("x", {graph::DType::kFloat32, {graph::Dim(4, "N"), 3}});
    const ops::Node& node = *b.op(op, {x, b.ints(axes)})->producer;
    return ops::OpRegistry::get().at(node).batch(node, 0);
  };
  EXPECT_EQ(role("ReduceSum", {0}), ops::BatchRole::kSum);
  EXPECT_EQ(role("ReduceSum", {-2}), ops::BatchRole::kSum);
  EXPECT_EQ(role("ReduceSum", {1}), ops::BatchRole::kRows);
  EXPECT_EQ(role("ReduceMean", {0}), ops::BatchRole::kCouples);
  EXPECT_EQ(role("ReduceMax", {0}), ops::BatchRole::kCouples);
  EXPECT_EQ(role("ReduceMax", {1}), ops::BatchRole::kRows);
}

TEST(Reduce, ties_share_the_gradient_evenly) {
  OpCase c = reduction("ReduceMax", given(floats({2, 3}, {5, 1, 5, 2, 2, 2})), Axes{1});
  c.numeric = Numeric::kSkip;
  c.dy = {floats({2, 1}, {6, 9})};
  c.expected_gradients = {floats({2, 3}, {3, 0, 3, 3, 3, 3})};
  check_op(c);
}

TEST(Reduce, the_product_of_the_others_where_there_are_zeros) {
  OpCase c = reduction("ReduceProd", given(floats({3, 3}, {0, 2, 3, 0, 0, 5, 1, 2, 4})), Axes{1});
  c.expected = {floats({3, 1}, {0, 0, 8})};
  c.dy = {floats({3, 1}, {1, 1, 2})};
  c.expected_gradients = {floats({3, 3}, {6, 0, 0, 0, 0, 0, 16, 8, 4})};
  check_op(c);
}

TEST(Reduce, nan_wins_a_maximum) {
  OpCase c = reduction("ReduceMax", given(floats({1, 3}, {1, kNan, 3})), Axes{1});
  c.expected = {floats({1, 1}, {kNan})};
  c.differentiate = std::vector<int>{};
  check_op(c);
}

TEST(Reduce, integers) {
  const Tensor x = ints({2, 2}, {7, -2, 3, 4});
  const auto check = [&](const char* op, std::vector<int64_t> y) {
    OpCase c = reduction(op, given(x), Axes{0}, kDrop);
    c.expected = {ints({2}, y)};
    check_op(c);
    c.inputs[0] = given(x.cast(graph::DType::kInt32));
    check_op(c);
  };
  check("ReduceSum", {10, 2});
  check("ReduceProd", {21, -8});
  check("ReduceMax", {7, 4});
  check("ReduceMin", {3, -2});
  check("ReduceMean", {5, 1});
}

TEST(Reduce, integers_wrap_and_roots_of_them_are_cut_off) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  const auto check = [&](const char* op, graph::DType dtype, std::vector<int64_t> x, int64_t y) {
    const auto count = static_cast<int64_t>(x.size());
    OpCase c = reduction(op, given(ints({count}, x).cast(dtype)), Axes{0}, kDrop);
    EXPECT_EQ(reference(c).at(0).to_ints().at(0), y) << op;
  };
  using graph::DType;
  check("ReduceSum", DType::kInt64, {kMax, 1}, kMin);
  check("ReduceProd", DType::kInt64, {kMax, 2}, -2);
  check("ReduceL1", DType::kInt64, {kMin}, kMin);
  check("ReduceSumSquare", DType::kInt64, {int64_t{1} << 32, 3}, 9);
  check("ReduceL2", DType::kInt64, {kMin, kMin}, kMax);
  check("ReduceL2", DType::kInt64, {int64_t{1} << 40}, int64_t{1} << 40);
  check("ReduceLogSum", DType::kInt32, {3, -3}, std::numeric_limits<int32_t>::min());
  check("ReduceLogSum", DType::kInt32, {3, -4}, 0);  // the logarithm is NaN
  check("ReduceMean", DType::kInt64, {kMax}, kMax);
  check("ReduceMean", DType::kInt64, {-7, 4}, -1);
  check("ReduceSum", DType::kInt8, {100, 100}, -56);
}

TEST(Reduce, unsigned_integers_keep_their_highest_bit) {
  constexpr uint64_t kHigh = uint64_t{1} << 63U;
  const Tensor x = Tensor::of<uint64_t>({2}, {kHigh + 8, 6});
  const auto check = [&](const char* op, uint64_t y) {
    OpCase c = reduction(op, given(x), Axes{0}, kDrop);
    EXPECT_EQ(reference(c).at(0).data<uint64_t>()[0], y) << op;
  };
  check("ReduceMax", kHigh + 8);
  check("ReduceMin", 6);
  check("ReduceSum", kHigh + 14);
  check("ReduceMean", kHigh / 2 + 7);
}

TEST(Reduce, gradient_operators_run_by_rows) {
  OpCase c;
  c.claim = c.op = "ReduceExtremumGrad";
  c.domain = "sardonyx";
  c.inputs = {given(floats({2, 3}, {1, 4, 2, 7, 5, 7})), given(floats({2}, {4, 7})),
              given(floats({2}, {10, 20}))};
  c.attributes = {{"axes", Axes{1}}};
  c.expected = {floats({2, 3}, {0, 10, 0, 10, 0, 10})};
  c.batch = true;
  check_op(c);
  c.claim = c.op = "ReduceProdGrad";
  c.inputs = {given(floats({2, 3}, {1, 4, 2, 0, 5, 6})), given(floats({2}, {1, 2}))};
  c.expected = {floats({2, 3}, {8, 2, 4, 60, 0, 0})};
  check_op(c);
}

TEST(Reduce, reduce_c1_rejects_axes_out_of_range) {
  OpCase c = reduction("ReduceSum", random({2, 3}), Axes{2});
  c.claim = "r1";
  EXPECT_EQ(infer_error(c),
            "C1: axis 2 is out of range for 2 axes, expected -2 to 1\n  while inferring shapes of "
            "node r1 (ReduceSum)");
}

TEST(Reduce, reduce_c2_rejects_an_axis_named_twice) {
  EXPECT_NE(infer_error(reduction("ReduceMax", random({2, 3}), Axes{1, -1}))
                .find("C2: axis 1 is named twice"),
            std::string::npos);
}

TEST(Reduce, extremes_of_booleans_are_any_and_all) {
  const Tensor x = bools({3, 2}, {true, true, false, true, false, false});
  OpCase c = reduction("ReduceMax", given(x), Axes{1}, kDrop);
  c.expected = {bools({3}, {true, true, false})};
  check_op(c);
  c = reduction("ReduceMin", given(x), Axes{1}, kDrop);
  c.expected = {bools({3}, {true, false, false})};
  check_op(c);
  const Tensor none = bools({2, 0}, {});
  c = reduction("ReduceMax", given(none), Axes{1}, kDrop);
  c.expected = {bools({2}, {false, false})};
  check_op(c);
  c = reduction("ReduceMin", given(none), Axes{1}, kDrop);
  c.expected = {bools({2}, {true, true})};
  check_op(c);
}

TEST(Reduce, reduce_c3_rejects_booleans) {
  EXPECT_NE(infer_error(reduction("ReduceSum", given(bools({2}, {true, false})), Axes{0}))
                .find("C3: input 0 is bool, expected numbers"),
            std::string::npos);
}

TEST(Reduce, axes_must_be_known) {
  OpCase c = reduction("ReduceSum", random({2, 3}), std::nullopt);
  c.inputs.push_back(given(ints({1}, {0})));
  EXPECT_NE(infer_error(c).find("input 1 (axes) 'x1' must be known before training starts"),
            std::string::npos);
}

TEST(Reduce, shapes_keep_symbols_and_unknown_dimensions) {
  OpCase c = reduction("ReduceSum", random({3, 4, 5}), Axes{1});
  c.batch = true;
  EXPECT_EQ(inferred_type(c), "float[N:3,1,5]");
  c.attributes = kDrop;
  EXPECT_EQ(inferred_type(c), "float[N:3,5]");
  c = reduction("ReduceSum", random({3, 4, 5}), Axes{0});
  c.batch = true;
  EXPECT_EQ(inferred_type(c), "float[1,4,5]");
}

TEST(Reduce, normalize_moves_axes_into_an_input) {
  graph::Graph g;
  graph::Value* x = g.add_input("x", {graph::DType::kFloat32, {2, 3}});
  graph::Node* node = g.add_node("", "ReduceMean", {x}, {"y"});
  node->attributes = {{"axes", Axes{1}}, {"keepdims", int64_t{0}}};
  ops::normalize_node(*node, 13);
  ASSERT_EQ(node->num_inputs(), 2);
  EXPECT_EQ(node->input(1)->data.to_ints(), Axes{1});
  EXPECT_FALSE(node->has("axes"));
  EXPECT_EQ(node->get_int("keepdims", 1), 0);
}

}  // namespace
}  // namespace sardonyx::test
