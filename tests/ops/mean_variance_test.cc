// MeanVarianceNormalization: by hand, equal values, axes, constraints.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

using graph::Attributes;
using ops::BatchRole;

OpCase on(OpInput x, Attributes attributes = {}) {
  OpCase c;
  c.claim = "MeanVarianceNormalization";
  c.op = "MeanVarianceNormalization";
  c.inputs = {std::move(x)};
  c.attributes = std::move(attributes);
  return c;
}

TEST(MeanVariance, subtracts_the_mean_and_divides_by_the_deviation_of_each_channel) {
  // Channel 0 has 1, 3, 5, 7 (mean 4, deviation sqrt 5), channel 1 has 0, 0, 2, 2 (1 and 1).
  OpCase c = on(given(doubles({2, 2, 1, 2}, {1, 3, 0, 0, 5, 7, 2, 2})));
  const double r = 1 / std::sqrt(5.0);
  c.expected = {doubles({2, 2, 1, 2}, {-3 * r, -r, -1, -1, r, 3 * r, 1, 1})};
  check_op(c);
}

TEST(MeanVariance, of_equal_values_is_zero) {
  OpCase c = on(given(doubles({2, 3}, {4, 4, 4, 1, 2, 3})), {{"axes", std::vector<int64_t>{1}}});
  const double r = std::sqrt(1.5);
  c.expected = {doubles({2, 3}, {0, 0, 0, -r, 0, r})};
  c.numeric = Numeric::kSkip;
  check_op(c);
}

TEST(MeanVariance, takes_any_axes) {
  for (const std::vector<int64_t>& axes :
       {std::vector<int64_t>{1}, {2}, {-1, 1}, {0, 2, 3}, {3, 0}, {0, 1, 2, 3}}) {
    OpCase c = on(random({3, 2, 4, 3}), {{"axes", axes}});
    c.batch = true;
    c.must_run = {"mean_variance.ref"};
    check_op(c);
    c.domain = ops::kDomain;
    c.op = "MeanVarianceNormGrad";
    c.inputs.push_back(random({3, 2, 4, 3}));
    check_op(c);
  }
}

TEST(MeanVariance, over_the_batch_couples_rows) {
  graph::Graph g;
  g.batch_symbol = "N";
  auto* x = g.add_input("x", ops::TensorType(DType::kFloat32, {graph::Dim(4, "N"), 3, 2, 2}));
  ops::OpBuilder b(g);
  const auto role = [&](const Attributes& attributes) {
    auto* y = b.op("MeanVarianceNormalization", {x}, attributes);
    return ops::OpRegistry::get().at(*y->producer).batch(*y->producer, 0);
  };
  EXPECT_EQ(role({}), BatchRole::kCouples);
  EXPECT_EQ(role({{"axes", std::vector<int64_t>{-4, 2}}}), BatchRole::kCouples);
  EXPECT_EQ(role({{"axes", std::vector<int64_t>{2, 3}}}), BatchRole::kRows);
}

TEST(MeanVariance, v1_rejects_integers) {
  EXPECT_NE(infer_error(on(given(ints({1, 1, 1, 2}, {1, 2})))).find("V1: input 0 is int64"),
            std::string::npos);
}

TEST(MeanVariance, v2_rejects_axes_out_of_range_twice_or_none) {
  const auto refused = [](const Attributes& attributes, const char* reason) {
    EXPECT_TRUE(infer_error(on(random({2, 3}), attributes)).starts_with(reason)) << reason;
  };
  refused({}, "V2: axis 2 is out of range for a value with 2 axes");
  refused({{"axes", std::vector<int64_t>{1, -1}}}, "V2: axis -1 is listed twice");
  refused({{"axes", std::vector<int64_t>{}}}, "V2: axes is empty, expected one axis at least");
}

}  // namespace
}  // namespace sardonyx::test
