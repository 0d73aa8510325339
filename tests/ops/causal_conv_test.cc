// Filters of powers of ten: every number of y shows what it read.
#include <gtest/gtest.h>

#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

OpCase causal(OpInput x, OpInput w, OpInput bias = left_out(), OpInput past = left_out()) {
  OpCase c;
  c.claim = c.op = "CausalConvWithState";
  c.inputs = {std::move(x), std::move(w), std::move(bias), std::move(past)};
  c.num_outputs = 2;
  c.must_run = {"causal_conv.ref"};
  return c;
}

const Tensor kFour = floats({1, 1, 4}, {1, 2, 3, 4});
const Tensor kTens = floats({1, 1, 3}, {1, 10, 100});

TEST(CausalConv, reads_what_is_there_and_zeros_before) {
  OpCase c = causal(given(kFour), parameter(given(kTens)));
  c.expected = {floats({1, 1, 4}, {100, 210, 321, 432}), floats({1, 1, 2}, {3, 4})};
  check_op(c);
  c.num_outputs = 1;
  c.expected.pop_back();
  check_op(c);
}

TEST(CausalConv, goes_on_where_the_past_ended) {
  const Tensor past = floats({1, 1, 2}, {7, 8});
  OpCase c = causal(given(kFour), parameter(given(kTens)), parameter(given(floats({1}, {0.5f}))),
                    given(past));
  c.expected = {floats({1, 1, 4}, {187.5f, 218.5f, 321.5f, 432.5f}), floats({1, 1, 2}, {3, 4})};
  check_op(c);
  c = causal(given(floats({1, 1, 1}, {1})), parameter(given(kTens)), left_out(), given(past));
  c.expected = {floats({1, 1, 1}, {187}), floats({1, 1, 2}, {8, 1})};
  check_op(c);
}

TEST(CausalConv, silu_multiplies_by_the_sigmoid) {
  OpCase c = causal(given(floats({1, 1, 2}, {1, -1})), parameter(given(floats({1, 1, 1}, {2}))));
  c.attributes = {{"activation", std::string("silu")}};
  c.expected = {floats({1, 1, 2}, {1.76159416f, -0.238405844f}), floats({1, 1, 0}, {})};
  check_op(c);
}

TEST(CausalConv, channels_have_filters_of_their_own_and_rows_run_one_by_one) {
  OpCase c = causal(random({5, 3, 6}), parameter(random({3, 1, 4})), parameter(random({3})),
                    random({5, 3, 3}));
  c.attributes = {{"activation", std::string("swish")}};
  c.batch = true;
  check_op(c);
}

TEST(CausalConv, causal_conv_c1_rejects_several_types) {
  OpCase c = causal(given(kFour), exactly(given(ints({1, 1, 3}, {1, 2, 3}))));
  EXPECT_NE(infer_error(c).find("C1: input 1 (weight)"), std::string::npos) << infer_error(c);
}

TEST(CausalConv, causal_conv_c2_rejects_shapes_that_do_not_agree) {
  const auto error = [](OpInput w, OpInput bias = left_out(), OpInput past = left_out()) {
    return infer_error(causal(random({2, 3, 6}), std::move(w), std::move(bias), std::move(past)));
  };
  EXPECT_NE(error(random({3, 2, 4})).find("C2: input 1 is float[3,2,4], expected [3,1,4]"),
            std::string::npos);
  EXPECT_NE(error(random({3, 1, 4}), random({2})).find("C2: input 2 is float[2], expected [3]"),
            std::string::npos);
  EXPECT_NE(error(random({3, 1, 4}), left_out(), random({2, 3, 4}))
                .find("C2: input 3 is float[2,3,4], expected [2,3,3]"),
            std::string::npos);
  EXPECT_NE(error(random({3, 4})).find("C2: input 1 is float[3,4], expected 3 axes"),
            std::string::npos);
  EXPECT_NE(error(random({3, 1, 0})).find("C2: input 1 is float[3,1,0], a filter of no elements"),
            std::string::npos);
}

TEST(CausalConv, causal_conv_c3_rejects_other_activations) {
  OpCase c = causal(given(kFour), given(kTens));
  c.attributes = {{"activation", std::string("relu")}};
  EXPECT_NE(infer_error(c).find("C3: activation is 'relu', expected none, silu or swish"),
            std::string::npos);
}

}  // namespace
}  // namespace sardonyx::test
