// Running sums worked out by hand.
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

OpCase cum_sum(OpInput x, int64_t axis, int64_t exclusive = 0, int64_t reverse = 0) {
  return {.claim = fmt::format("axis {} exclusive {} reverse {}", axis, exclusive, reverse),
          .op = "CumSum",
          .inputs = {std::move(x), constant(Tensor::scalar<int64_t>(axis))},
          .attributes = {{"exclusive", exclusive}, {"reverse", reverse}},
          .must_run = {"cum_sum.ref"}};
}

const Tensor kSix = floats({2, 3}, {1, 2, 3, 4, 5, 6});

TEST(CumSum, sums_up_to_each_element_or_what_stands_before_it) {
  const auto expect = [](int64_t exclusive, int64_t reverse, std::vector<float> y,
                         std::vector<float> dx) {
    OpCase c = cum_sum(given(kSix), 1, exclusive, reverse);
    c.expected = {floats({2, 3}, y)};
    c.dy = {floats({2, 3}, {1, 10, 100, 2, 20, 200})};
    c.expected_gradients = {floats({2, 3}, dx)};
    check_op(c);
  };
  expect(0, 0, {1, 3, 6, 4, 9, 15}, {111, 110, 100, 222, 220, 200});
  expect(1, 0, {0, 1, 3, 0, 4, 9}, {110, 100, 0, 220, 200, 0});
  expect(0, 1, {6, 5, 3, 15, 11, 6}, {1, 11, 111, 2, 22, 222});
  expect(1, 1, {5, 3, 0, 11, 6, 0}, {0, 1, 11, 0, 2, 22});
}

TEST(CumSum, runs_along_any_axis) {
  OpCase c = cum_sum(given(kSix), 0);
  c.expected = {floats({2, 3}, {1, 2, 3, 5, 7, 9})};
  check_op(c);
  for (int64_t axis : {0, 1, -1}) check_op(cum_sum(random({3, 4, 5}), axis));
  c = cum_sum(random({5, 4, 3}), 1);
  c.batch = true;
  check_op(c);
  c = cum_sum(random({5, 4}), 0);
  c.batch = true;
  check_op(c);
}

TEST(CumSum, takes_integers_and_empty_axes) {
  OpCase c = cum_sum(given(ints({4}, {1, -2, 3, 4})), 0);
  c.expected = {ints({4}, {1, -1, 2, 6})};
  check_op(c);
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  c = cum_sum(given(ints({3}, {kMax, 1, 1})), 0);
  c.expected = {ints({3}, {kMax, std::numeric_limits<int64_t>::min(), -kMax})};
  check_op(c);
  c = cum_sum(random({2, 0}), 1);
  c.zero_gradients = {0};
  check_op(c);
}

OpCase cum_prod(OpInput x, int64_t axis, int64_t exclusive = 0, int64_t reverse = 0) {
  OpCase c = cum_sum(std::move(x), axis, exclusive, reverse);
  c.op = "CumProd";
  return c;
}

TEST(CumSum, cum_prod_multiplies_up_to_each_element_or_what_stands_before_it) {
  const auto expect = [](int64_t exclusive, int64_t reverse, std::vector<float> y,
                         std::vector<float> dx) {
    OpCase c = cum_prod(given(kSix), 1, exclusive, reverse);
    c.expected = {floats({2, 3}, y)};
    c.dy = {floats({2, 3}, {1, 10, 100, 2, 20, 200})};
    c.expected_gradients = {floats({2, 3}, dx)};
    check_op(c);
  };
  expect(0, 0, {1, 2, 6, 4, 20, 120}, {621, 310, 200, 6102, 4880, 4000});
  expect(1, 0, {1, 1, 2, 1, 4, 20}, {210, 100, 0, 1020, 800, 0});
  expect(0, 1, {6, 6, 3, 120, 30, 6}, {6, 33, 122, 60, 168, 340});
  expect(1, 1, {6, 3, 1, 30, 6, 1}, {0, 3, 12, 0, 12, 30});
}

TEST(CumSum, cum_prod_has_its_gradient_where_elements_are_zero) {
  OpCase c = cum_prod(given(floats({4}, {2, 0, 3, 0})), 0);
  c.expected = {floats({4}, {2, 0, 0, 0})};
  c.dy = {floats({4}, {1, 1, 1, 1})};
  c.expected_gradients = {floats({4}, {1, 8, 0, 0})};
  check_op(c);
}

TEST(CumSum, cum_prod_runs_along_any_axis_by_rows_and_on_integers) {
  for (int64_t axis : {0, 1, -1}) check_op(cum_prod(random({3, 4, 2}), axis, 0, 1));
  OpCase c = cum_prod(random({5, 4, 3}), 1);
  c.batch = true;
  check_op(c);
  c = cum_prod(given(ints({4}, {3, -2, 1LL << 62, 2})), 0);
  c.expected = {ints({4}, {3, -6, std::numeric_limits<int64_t>::min(), 0})};
  check_op(c);
}

TEST(CumSum, cum_sum_c1_rejects_an_axis_out_of_range) {
  EXPECT_NE(infer_error(cum_sum(random({2, 3}), 2))
                .find("C1: axis 2 is out of range for 2 axes, expected -2 to 1"),
            std::string::npos);
}

TEST(CumSum, cum_sum_c2_rejects_booleans) {
  EXPECT_NE(infer_error(cum_sum(given(bools({1}, {true})), 0))
                .find("C2: input 0 is bool, expected numbers"),
            std::string::npos);
}

TEST(CumSum, cum_sum_c3_rejects_several_axes) {
  const OpCase c = {
      .claim = "c", .op = "CumSum", .inputs = {random({2, 3}), constant_ints({0, 1})}};
  EXPECT_NE(infer_error(c).find("C3: axis has 2 elements, expected one"), std::string::npos);
}

TEST(CumSum, cum_sum_c4_rejects_gradients_of_another_shape) {
  const OpCase c = {.claim = "c4",
                    .domain = "sardonyx",
                    .op = "CumProdGrad",
                    .inputs = {random({2, 3}), constant_ints({0}), random({2, 2})}};
  EXPECT_NE(infer_error(c).find("C4: x has type float[2,3], but dy has type float[2,2]"),
            std::string::npos);
}

}  // namespace
}  // namespace sardonyx::test
