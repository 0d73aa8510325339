// LRN: the window of channels by hand, exponents, kernels and layouts, constraints.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

using graph::Attributes;

OpCase lrn(OpInput x, Attributes attributes) {
  OpCase c;
  c.claim = "LRN";
  c.op = "LRN";
  c.inputs = {std::move(x)};
  c.attributes = std::move(attributes);
  c.must_run = {"lrn.ref", "lrn.columns"};
  return c;
}

TEST(Lrn, divides_by_the_squares_of_neighbouring_channels) {
  // size 2 sees the channel itself and the next one; alpha / size = 1.
  OpCase c = lrn(given(doubles({1, 3, 1}, {1, 2, 4})),
                 {{"size", int64_t{2}}, {"alpha", 2.0}, {"beta", 1.0}, {"bias", 3.0}});
  c.expected = {doubles({1, 3, 1}, {1.0 / 8, 2.0 / 23, 4.0 / 19})};
  check_op(c);
  c.attributes["size"] = int64_t{3};
  c.attributes["alpha"] = 3.0;
  c.expected = {doubles({1, 3, 1}, {1.0 / 8, 2.0 / 24, 4.0 / 23})};
  check_op(c);
}

TEST(Lrn, defaults_are_those_of_onnx) {
  OpCase c = lrn(given(doubles({1, 1}, {3})), {{"size", int64_t{1}}});
  c.expected = {doubles({1, 1}, {3 / std::pow(1 + 9e-4, 0.75)})};
  check_op(c);
}

TEST(Lrn, every_size_agrees_on_all_kernels_and_layouts) {
  for (const int64_t size : {1, 2, 3, 4, 5, 9}) {
    OpCase c = lrn(random({2, 5, 3, 2}), {{"size", size}, {"alpha", 0.5}, {"bias", 2.0}});
    c.batch = true;
    c.must_run.push_back("lrn.lanes");
    check_op(c);
    c.attributes["beta"] = 0.6;
    check_op(c);
  }
  check_op(lrn(random({2, 3, 70}), {{"size", int64_t{3}}, {"alpha", 0.5}}));
}

TEST(Lrn, gradient_operator_agrees_on_all_kernels_and_layouts) {
  OpCase c = lrn(random({2, 5, 3, 2}), {{"size", int64_t{4}}, {"alpha", 0.5}});
  c.domain = ops::kDomain;
  c.op = c.claim = "LrnGrad";
  c.inputs.push_back(random({2, 5, 3, 2}));
  c.batch = true;
  c.must_run.push_back("lrn.lanes");
  check_op(c);
}

TEST(Lrn, l1_rejects_integers) {
  EXPECT_NE(infer_error(lrn(given(ints({1, 2}, {1, 2})), {{"size", int64_t{1}}})).find("L1"),
            std::string::npos);
}

TEST(Lrn, l2_rejects_values_without_channels) {
  EXPECT_NE(infer_error(lrn(random({3}), {{"size", int64_t{1}}})).find("L2: x is float[3]"),
            std::string::npos);
}

TEST(Lrn, l3_rejects_windows_without_channels) {
  EXPECT_NE(infer_error(lrn(random({1, 3}), {})).find("L3: size is 0, expected at least 1"),
            std::string::npos);
}

TEST(Lrn, l4_rejects_a_bias_below_zero) {
  const std::string error =
      infer_error(lrn(random({1, 3}), {{"size", int64_t{1}}, {"bias", -0.5}}));
  EXPECT_NE(error.find("L4: attribute 'bias' is -0.5, expected a finite number above 0: where what "
                       "it is added to is below 0.5, the sum is negative"),
            std::string::npos)
      << error;
}

}  // namespace
}  // namespace sardonyx::test
