// Max, Min, PRelu and Mod (ops/arithmetic). Expected numbers are exact small results.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/core/infer.h"
#include "ops/core/normalize.h"
#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
const std::vector<std::string> kAllPlain = {"arithmetic.ref", "arithmetic.broadcast"};

OpCase of(std::string op, std::vector<OpInput> inputs, Tensor expected = {}) {
  OpCase c;
  c.claim = op;
  c.op = std::move(op);
  c.inputs = std::move(inputs);
  if (expected.defined()) c.expected = {std::move(expected)};
  return c;
}

TEST(ArithmeticSelect, max_and_min_broadcast_any_number_of_inputs) {
  OpCase c = of("Max",
                {given(floats({2, 3}, {1, 5, 3, 4, 2, 6})), given(floats({3}, {2, 4, 7})),
                 given(floats({}, {3}))},
                floats({2, 3}, {3, 5, 7, 4, 4, 7}));
  c.dy = {floats({2, 3}, {1, 2, 3, 4, 5, 6})};
  c.expected_gradients = {floats({2, 3}, {0, 2, 0, 4, 0, 0}), floats({3}, {0, 5, 9}),
                          floats({}, {1})};
  c.must_run = kAllPlain;
  check_op(c);
  c = of("Min",
         {given(floats({2, 3}, {1, 5, 3, 4, 2, 6})), given(floats({3}, {2, 4, 7})),
          given(floats({}, {3}))},
         floats({2, 3}, {1, 3, 3, 2, 2, 3}));
  c.numeric = Numeric::kSkip;  // a tie at the element 3 of the first row
  c.dy = {floats({2, 3}, {1, 2, 4, 8, 16, 32})};
  c.expected_gradients = {floats({2, 3}, {1, 0, 2, 0, 16, 0}), floats({3}, {8, 0, 0}),
                          floats({}, {36})};
  check_op(c);
}

TEST(ArithmeticSelect, max_and_min_broadcast_every_way) {
  for (const char* op : {"Max", "Min"}) {
    check_op(of(op, {random({3, 4}), random({3, 4})}));
    check_op(of(op, {random({3, 4}), random({4})}));
    check_op(of(op, {random({1, 4}), random({3, 1})}));
    check_op(of(op, {random({4}), random({3, 1, 1}), random({2, 1})}));
    check_op(of(op, {random({2, 3})}));
    check_op(of(op, {random({9}), random({9}, -1, 1, 5), random({9}, -1, 1, 6)}));
  }
}

TEST(ArithmeticSelect, ties_share_the_gradient_evenly) {
  OpCase c = of("Max", {given(floats({4}, {1, 2, 3, 0})), given(floats({4}, {1, 5, 3, -1}))},
                floats({4}, {1, 5, 3, 0}));
  c.numeric = Numeric::kSkip;
  c.dy = {floats({4}, {2, 4, 6, 8})};
  c.expected_gradients = {floats({4}, {1, 0, 3, 8}), floats({4}, {1, 4, 3, 0})};
  check_op(c);
  c = of("Min", {given(floats({1}, {2})), given(floats({1}, {2})), given(floats({1}, {2}))});
  c.numeric = Numeric::kSkip;
  c.dy = {floats({1}, {6})};
  c.expected_gradients = {floats({1}, {2}), floats({1}, {2}), floats({1}, {2})};
  check_op(c);
}

TEST(ArithmeticSelect, nan_wins_and_takes_the_gradient) {
  for (const char* op : {"Max", "Min"}) {
    OpCase c = of(op, {given(floats({3}, {kNan, 1, kNan})), given(floats({3}, {1, kNan, kNan}))},
                  floats({3}, {kNan, kNan, kNan}));
    c.numeric = Numeric::kSkip;
    c.dy = {floats({3}, {2, 4, 6})};
    c.expected_gradients = {floats({3}, {2, 0, 3}), floats({3}, {0, 4, 3})};
    check_op(c);
  }
}

TEST(ArithmeticSelect, max_and_min_take_integers) {
  check_op(of("Max", {given(ints({3}, {-5, 2, 3})), given(ints({1}, {0}))}, ints({3}, {0, 2, 3})));
  check_op(of("Min", {given(ints({3}, {-5, 2, 3})), given(ints({1}, {0}))}, ints({3}, {-5, 0, 0})));
}

TEST(ArithmeticSelect, max_with_a_number_runs_in_lanes) {
  for (const char* op : {"Max", "Min"}) {
    OpCase c = of(op, {random({5, 3, 4}), constant(floats({}, {0.125f}))});
    c.batch = true;
    c.must_run = {"arithmetic.broadcast", "arithmetic.lanes"};
    check_op(c);
    c.inputs = {random({5, 3, 4}), random({5, 3, 4}), random({5, 3, 4}, -1, 1, 9)};
    c.must_run = {"arithmetic.same"};
    check_op(c);
  }
}

TEST(ArithmeticSelect, gradients_of_max_and_min_have_gradients) {
  for (const char* op : {"MaxGrad", "MinGrad"}) {
    OpCase c = of(op, {random({3, 4}), random({3, 4}), random({4}, -1, 1, 7)});
    c.domain = "sardonyx";
    c.zero_gradients = {1, 2};
    c.batch = true;
    c.inputs[2] = parameter(c.inputs[2]);
    c.must_run = {"arithmetic.ref", "arithmetic.broadcast", "arithmetic.lanes"};
    check_op(c);
    c.inputs[2] = random({3, 4}, -1, 1, 7);
    c.must_run = {"arithmetic.ref", "arithmetic.same"};
    check_op(c);
  }
}

TEST(ArithmeticSelect, prelu_scales_below_zero_and_has_its_slope_at_zero) {
  OpCase c = of("PRelu",
                {given(floats({2, 3}, {-2, 0, 3, 4, -1, -8})), given(floats({3}, {0.5, 0.25, -1}))},
                floats({2, 3}, {-1, 0, 3, 4, -0.25, 8}));
  c.numeric = Numeric::kSkip;
  c.dy = {floats({2, 3}, {1, 4, 3, 4, 5, 6})};
  c.expected_gradients = {floats({2, 3}, {0.5, 1, 3, 4, 1.25, -6}), floats({3}, {-2, -5, -48})};
  c.must_run = kAllPlain;
  check_op(c);
}

TEST(ArithmeticSelect, prelu_takes_a_slope_of_any_shape_that_broadcasts_to_x) {
  for (const std::vector<int64_t>& slope :
       {std::vector<int64_t>{3, 1, 1}, {1}, {}, {1, 3, 2, 2}, {2}}) {
    OpCase c = of("PRelu", {random({5, 3, 2, 2}), parameter(random(slope))});
    c.batch = true;
    c.must_run = {"arithmetic.ref", "arithmetic.broadcast", "arithmetic.lanes"};
    check_op(c);
  }
  check_op(of("PRelu", {random({5, 3}), random({5, 3})}));
}

TEST(ArithmeticSelect, gradient_of_prelu_runs_by_rows_and_in_lanes) {
  OpCase c = of("PReluGrad", {random({5, 3}), parameter(random({3})), random({5, 3})});
  c.domain = "sardonyx";
  c.batch = true;
  c.must_run = {"arithmetic.ref", "arithmetic.broadcast", "arithmetic.lanes"};
  check_op(c);
  c.inputs[1] = random({5, 3});
  c.must_run = {"arithmetic.same"};
  check_op(c);
}

TEST(ArithmeticSelect, an_old_slope_starts_at_the_channels) {
  graph::Graph g;
  graph::Value* x = g.add_input("x", {graph::DType::kFloat32, {2, 3, 2}});
  graph::Value* slope = g.add_input("s", {graph::DType::kFloat32, {3}});
  graph::Node* node = g.add_node("", "PRelu", {x, slope}, {"y"});
  ops::normalize_node(*node, 6);
  OpCase c =
      of("PRelu", {given(floats({1, 3, 2}, {-1, -2, -3, -4, 5, 6})), given(floats({3}, {2, 3, 4}))},
         floats({1, 3, 2}, {-2, -4, -9, -12, 5, 6}));
  c.attributes = {{"legacy_axis", node->get_int("legacy_axis", -1)}};
  check_op(c);
}

TEST(ArithmeticSelect, a_slope_without_a_result_has_no_shape_to_fit) {
  graph::Graph g;
  graph::Value* x = g.add_input("x", {graph::DType::kFloat32, {2, 3}});
  for (const std::vector<std::string>& outputs : {std::vector<std::string>{}, {""}}) {
    ops::infer_node(*g.add_node("", "PRelu", {x, x}, outputs));
  }
}

TEST(ArithmeticSelect, mod_has_the_sign_of_the_divisor_or_with_fmod_of_the_dividend) {
  const Tensor a = ints({6}, {-7, 7, -7, 7, -6, 5}), b = ints({6}, {3, -3, -3, 3, 3, -1});
  check_op(of("Mod", {given(a), given(b)}, ints({6}, {2, -2, -1, 1, 0, 0})));
  OpCase c = of("Mod", {given(a), given(b)}, ints({6}, {-1, 1, -1, 1, 0, 0}));
  c.attributes = {{"fmod", int64_t{1}}};
  check_op(c);
  c = of("Mod", {given(floats({2, 2}, {-5.5f, 5.5f, 3, 7.25f})), given(floats({2}, {2, -1.5f}))},
         floats({2, 2}, {-1.5f, 1, 1, 1.25f}));
  c.attributes = {{"fmod", int64_t{1}}};
  c.dy = {floats({2, 2}, {1, 2, 4, 8})};
  // - dy trunc(a / b): 2, 6 and - 4, 32
  c.expected_gradients = {floats({2, 2}, {1, 2, 4, 8}), floats({2}, {-2, 38})};
  check_op(c);
}

TEST(ArithmeticSelect, mod_of_floats_has_the_sign_of_the_divisor_without_fmod) {
  OpCase c =
      of("Mod", {given(floats({2, 2}, {-5.5f, 5.5f, 3, 7.25f})), given(floats({2}, {2, -1.5f}))},
         floats({2, 2}, {0.5f, -0.5f, 1, -0.25f}));
  c.dy = {floats({2, 2}, {1, 2, 4, 8})};
  // - dy floor(a / b): 3, 8 and - 4, 40
  c.expected_gradients = {floats({2, 2}, {1, 2, 4, 8}), floats({2}, {-1, 48})};
  check_op(c);
}

TEST(ArithmeticSelect, mod_of_zero_infinity_and_nan_is_that_of_python) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  OpCase c = of("Mod",
                {given(floats({8}, {0, 0, -3, 3, 1, kInf, 1, kNan})),
                 given(floats({8}, {1, -1, kInf, kInf, -kInf, 2, 0, 1}))},
                floats({8}, {0, -0.0f, kInf, 3, -kInf, kNan, kNan, kNan}));
  c.differentiate = std::vector<int>{};
  check_op(c);
  const Tensor zeros = reference(c)[0];
  EXPECT_FALSE(std::signbit(zeros.as_double(0)));
  EXPECT_TRUE(std::signbit(zeros.as_double(1)));
}

TEST(ArithmeticSelect, select_c1_rejects_shapes_that_do_not_broadcast) {
  EXPECT_NE(infer_error(of("Max", {random({2, 3}), random({2})})).find("C1: input 1 has shape [2]"),
            std::string::npos);
}

TEST(ArithmeticSelect, select_c2_rejects_mixed_types_and_booleans) {
  EXPECT_NE(infer_error(of("Max", {random({2}), given(ints({2}, {1, 2}))}))
                .find("C2: input 1 (data) 'x1' is int64[2], but input 0 (data) 'x0' is float[2]: "),
            std::string::npos);
  EXPECT_NE(infer_error(of("Min", {given(bools({1}, {true}))}))
                .find("C2: input 0 is bool, expected numbers"),
            std::string::npos);
}

TEST(ArithmeticSelect, select_c3_rejects_a_slope_larger_than_x) {
  EXPECT_NE(infer_error(of("PRelu", {random({3}), random({2, 3})}))
                .find("C3: slope has type float[2,3], which does not broadcast to that of x, "
                      "float[3]"),
            std::string::npos);
}

}  // namespace
}  // namespace sardonyx::test
