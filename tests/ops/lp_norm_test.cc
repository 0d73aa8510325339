// LpNormalization: both norms by hand, rows of zeros, axes, layouts, constraints.
#include <gtest/gtest.h>

#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

using graph::Attributes;
using ops::BatchRole;

OpCase on(OpInput x, Attributes attributes = {}) {
  OpCase c;
  c.claim = "LpNormalization";
  c.op = "LpNormalization";
  c.inputs = {std::move(x)};
  c.attributes = std::move(attributes);
  return c;
}

TEST(LpNorm, divides_by_the_norm) {
  OpCase c = on(given(doubles({2, 2}, {3, -4, 5, 12})));
  c.expected = {doubles({2, 2}, {0.6, -0.8, 5.0 / 13, 12.0 / 13})};
  c.dy = {doubles({2, 2}, {1, 0, 0, 0})};
  c.expected_gradients = {doubles({2, 2}, {0.64 / 5, 0.48 / 5, 0, 0})};
  check_op(c);
  c = on(given(doubles({2, 2}, {3, -1, 2, 8})), {{"p", int64_t{1}}, {"axis", int64_t{0}}});
  c.expected = {doubles({2, 2}, {0.6, -1.0 / 9, 0.4, 8.0 / 9})};
  check_op(c);
}

TEST(LpNorm, zeros_stay_zeros_without_a_gradient) {
  for (const int64_t p : {1, 2}) {
    OpCase c = on(given(doubles({2, 2}, {0, 0, 0, 4})), {{"p", p}});
    c.expected = {doubles({2, 2}, {0, 0, 0, 1})};
    c.dy = {doubles({2, 2}, {1, 2, 8, 3})};
    c.expected_gradients = {doubles({2, 2}, {0, 0, 2, 0})};
    c.numeric = Numeric::kSkip;
    check_op(c);
  }
}

TEST(LpNorm, any_axis_on_all_layouts) {
  for (const int64_t axis : {1, 2, -1}) {
    for (const int64_t p : {1, 2}) {
      OpCase c = on(random({3, 4, 5}), {{"axis", axis}, {"p", p}});
      c.batch = true;
      c.must_run = {"lp_norm.ref", "lp_norm.lanes"};
      check_op(c);
      c.domain = ops::kDomain;
      c.op = "LpNormGrad";
      c.inputs.push_back(random({3, 4, 5}));
      check_op(c);
    }
  }
}

TEST(LpNorm, over_the_batch_couples_rows) {
  graph::Graph g;
  g.batch_symbol = "N";
  auto* x = g.add_input("x", ops::TensorType(DType::kFloat32, {graph::Dim(4, "N"), 3}));
  ops::OpBuilder b(g);
  for (const int64_t axis : {0, -2}) {
    auto* y = b.op("LpNormalization", {x}, {{"axis", axis}});
    EXPECT_EQ(ops::OpRegistry::get().at(*y->producer).batch(*y->producer, 0), BatchRole::kCouples);
  }
  OpCase c = on(random({4, 3}), {{"axis", int64_t{0}}});
  c.batch = true;
  check_op(c);
}

TEST(LpNorm, l1_rejects_integers) {
  EXPECT_NE(infer_error(on(given(ints({2}, {1, 2})))).find("L1: input 0 is int64"),
            std::string::npos);
}

TEST(LpNorm, l2_rejects_axes_out_of_range) {
  EXPECT_NE(infer_error(on(random({2, 3}), {{"axis", int64_t{2}}})).find("L2: axis 2 is out"),
            std::string::npos);
}

TEST(LpNorm, l3_rejects_other_norms) {
  EXPECT_NE(infer_error(on(random({2, 3}), {{"p", int64_t{3}}})).find("L3: p is 3"),
            std::string::npos);
}

}  // namespace
}  // namespace sardonyx::test
