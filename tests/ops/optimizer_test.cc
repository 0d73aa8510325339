// Updates against runs of torch.optim that can be done by hand; longer runs of a whole session are
// in tests/runtime/optimizer_test.cc.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

using graph::Attributes;

const std::vector<std::string> kKernels = {"optimizer.ref", "optimizer.vector"};
const double kNan = std::nan("");
const double kInf = std::numeric_limits<double>::infinity();

Attributes options(double momentum, double dampening = 0, int64_t nesterov = 0,
                   double weight_decay = 0) {
  return {{"momentum", momentum},
          {"dampening", dampening},
          {"nesterov", nesterov},
          {"weight_decay", weight_decay}};
}

OpInput scalar(double value) { return parameter(given(doubles({}, {value}))); }

OpInput rate(double value) { return exactly(scalar(value)); }
OpInput count(int64_t value) { return parameter(given(Tensor::scalar<int64_t>(value))); }

OpCase sgd(Tensor w, Tensor g, double lr, double scale, Attributes attributes, Tensor m = {},
           int64_t step = 0) {
  OpCase c{.claim = "sgd", .domain = ops::kDomain, .op = "SGD"};
  c.inputs = {parameter(given(std::move(w))), given(std::move(g)), rate(lr), scalar(scale)};
  c.attributes = std::move(attributes);
  if (m.defined()) {
    c.inputs.push_back(parameter(given(std::move(m))));
    c.inputs.push_back(count(step));
    c.num_outputs = 2;
  }
  c.must_run = kKernels;
  return c;
}

// One parameter, started at `w`, over steps of gradient `g` with rates `lr`: the values after each.
std::vector<double> trajectory(double w, double g, const std::vector<double>& lr,
                               const Attributes& attributes) {
  std::vector<double> result;
  double m = 0;
  for (size_t step = 0; step < lr.size(); ++step) {
    OpCase c = sgd(doubles({1}, {w}), doubles({1}, {g}), lr[step], 1, attributes, doubles({1}, {m}),
                   static_cast<int64_t>(step));
    check_op(c);
    const std::vector<Tensor> next = reference(c);
    w = next[0].as_double(0);
    m = next[1].as_double(0);
    result.push_back(w);
  }
  return result;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-14) << "step " << i;
}

TEST(Sgd, momentum_follows_the_golden_run) {
  expect_near(trajectory(0, 1, {0.1, 0.1, 0.01}, options(0.9)), {-0.1, -0.29, -0.3171});
}

TEST(Sgd, nesterov_follows_the_golden_run) {
  expect_near(trajectory(0, 1, {0.1, 0.1, 0.01}, options(0.9, 0, 1)), {-0.19, -0.461, -0.49539});
}

TEST(Sgd, without_momentum_steps_add_up) {
  expect_near(trajectory(0, 1, {0.1, 0.1, 0.01}, options(0)), {-0.1, -0.2, -0.21});
}

TEST(Sgd, dampening_does_not_touch_the_first_step) {
  // m: 1, 0.9 + 0.5, 1.26 + 0.5
  expect_near(trajectory(0, 1, {0.1, 0.1, 0.1}, options(0.9, 0.5)), {-0.1, -0.24, -0.416});
}

TEST(Sgd, weight_decay_works_without_a_gradient) {
  expect_near(trajectory(1, 0, {0.1, 0.1}, options(0, 0, 0, 0.1)), {0.99, 0.9801});
  // m: 0.1, 0.09 + 0.099
  expect_near(trajectory(1, 0, {0.1, 0.1}, options(0.9, 0, 0, 0.1)), {0.99, 0.9711});
}

TEST(Sgd, multiplies_the_gradient_by_the_scale_before_weight_decay) {
  OpCase c = sgd(doubles({2}, {1, -2}), doubles({2}, {8, 4}), 0.5, 0.25, options(0, 0, 0, 0.5));
  // g: 2 + 0.5, 1 - 1
  c.expected = {doubles({2}, {-0.25, -2})};
  check_op(c);
}

TEST(Sgd, all_options_at_once) {
  OpCase c = sgd(doubles({2}, {1, -1}), doubles({2}, {2, 4}), 0.1, 0.5, options(0.5, 0.25, 0, 1),
                 doubles({2}, {4, 8}), 1);
  // g: 2, 1; m: 2 + 1.5, 4 + 0.75
  c.expected = {doubles({2}, {0.65, -1.475}), doubles({2}, {3.5, 4.75})};
  check_op(c);
}

TEST(Sgd, a_scale_of_nan_changes_nothing) {
  OpCase c = sgd(doubles({2}, {1, -1}), doubles({2}, {kInf, kNan}), 0.1, kNan,
                 options(0.9, 0, 0, 0.1), doubles({2}, {4, 8}), 0);
  c.expected = {doubles({2}, {1, -1}), doubles({2}, {4, 8})};
  check_op(c);
}

TEST(Sgd, large_parameters_are_cut_between_threads) {
  check_op({.claim = "large",
            .domain = ops::kDomain,
            .op = "SGD",
            .inputs = {parameter(random({40009})), random({40009}), rate(0.1), scalar(0.5),
                       parameter(random({40009})), count(1)},
            .attributes = options(0.9, 0, 1, 5e-4),
            .num_outputs = 2});
}

TEST(Sgd, o1_to_o4_reject_what_does_not_fit) {
  const auto error = [](OpCase c) { return infer_error(c); };
  const Tensor w = doubles({2}, {1, 2}), one = doubles({1}, {1});
  EXPECT_NE(error(sgd(w, one, 1, 1, {})).find("O1: input 1 has type float[1]"), std::string::npos);
  OpCase lr = sgd(w, w, 1, 1, {});
  lr.inputs[2] = scalar(1);
  EXPECT_NE(error(lr).find("O2: input 2 has type float[], expected a double scalar"),
            std::string::npos);
  lr = sgd(w, w, 1, 1, {});
  lr.inputs[3] = rate(1);
  EXPECT_NE(error(lr).find("O2: input 3 has type double[], expected a float scalar"),
            std::string::npos);
  EXPECT_NE(error(sgd(w, w, 1, 1, options(0.9))).find("O3: momentum 0.9 needs"), std::string::npos);
  EXPECT_NE(error(sgd(w, w, 1, 1, options(0, 0, 1))).find("O4: nesterov needs momentum above 0"),
            std::string::npos);
  EXPECT_NE(error(sgd(w, w, 1, 1, options(0, 0, 0, -1)))
                .find("O4: weight_decay is -1, expected at least 0"),
            std::string::npos);
  EXPECT_NE(error(sgd(w, w, 1, 1, {{"lr_factor", kNan}})).find("O4: lr_factor is nan"),
            std::string::npos);
}

TEST(Sgd, clips_elements_after_the_division_and_before_weight_decay) {
  OpCase c = sgd(doubles({3}, {1, 1, 1}), doubles({3}, {8, -8, 1}), 0.5, 0.5,
                 {{"clip_value", 2.0}, {"weight_decay", 1.0}});
  // g: 4, -4, 0.5, cut to 2, -2, 0.5, plus 1
  c.expected = {doubles({3}, {-0.5, 1.5, 0.25})};
  check_op(c);
}

TEST(Sgd, the_rate_of_a_group_is_a_part_of_the_rate) {
  OpCase c = sgd(doubles({1}, {1}), doubles({1}, {2}), 0.5, 1, {{"lr_factor", 0.25}});
  c.expected = {doubles({1}, {0.75})};
  check_op(c);
}

struct Moments {
  double m = 0, v = 0;
};

OpCase adam(const char* op, std::vector<double> w, std::vector<double> g, double lr, double scale,
            Attributes attributes, std::vector<Moments> moments, int64_t step) {
  const auto n = static_cast<int64_t>(w.size());
  std::vector<double> m, v;
  for (const Moments& both : moments) {
    m.push_back(both.m);
    v.push_back(both.v);
  }
  OpCase c{.claim = "adam", .domain = ops::kDomain, .op = op};
  c.inputs = {parameter(given(doubles({n}, w))),
              given(doubles({n}, g)),
              rate(lr),
              scalar(scale),
              parameter(given(doubles({n}, m))),
              parameter(given(doubles({n}, v))),
              count(step)};
  c.attributes = std::move(attributes);
  c.num_outputs = 3;
  c.must_run = kKernels;
  return c;
}

TEST(Adam, the_first_step_moves_by_the_rate_whatever_the_gradient) {
  OpCase c = adam("Adam", {1, 1}, {400, -4}, 0.5, 0.01, {{"eps", 0.0}}, {{}, {}}, 0);
  // g: 4, -0.04; m = g / 10, v = g^2 / 1000
  c.expected = {doubles({2}, {0.5, 1.5}), doubles({2}, {0.4, -0.004}),
                doubles({2}, {0.016, 1.6e-6})};
  check_op(c);
}

TEST(Adam, later_steps_correct_less) {
  OpCase c =
      adam("Adam", {1}, {3}, 0.1, 1, {{"beta1", 0.5}, {"beta2", 0.75}, {"eps", 1.0}}, {{1, 4}}, 1);
  // m = 2, v = 5.25; corrections 0.75, 0.4375: w = 1 - 0.1 / 0.75 * 2 / (sqrt(12) + 1)
  c.expected = {doubles({1}, {1 - 0.2 / 0.75 / (std::sqrt(12.0) + 1)}), doubles({1}, {2}),
                doubles({1}, {5.25})};
  check_op(c);
}

TEST(Adam, weight_decay_is_part_of_the_gradient) {
  OpCase c = adam("Adam", {2}, {0}, 0.5, 1, {{"weight_decay", 0.5}, {"eps", 0.0}}, {{}}, 0);
  c.expected = {doubles({1}, {1.5}), doubles({1}, {0.1}), doubles({1}, {0.001})};
  check_op(c);
}

TEST(AdamW, weight_decay_shrinks_the_weight_and_leaves_the_moments_alone) {
  OpCase c = adam("AdamW", {2}, {0}, 0.5, 1, {{"weight_decay", 0.5}}, {{}}, 0);
  c.expected = {doubles({1}, {1.5}), doubles({1}, {0}), doubles({1}, {0})};
  check_op(c);
  c = adam("AdamW", {2}, {4}, 0.5, 1, {{"weight_decay", 0.5}, {"eps", 0.0}}, {{}}, 0);
  c.expected = {doubles({1}, {1.0}), doubles({1}, {0.4}), doubles({1}, {0.016})};
  check_op(c);
}

TEST(AdamW, the_rate_of_a_group_counts_in_the_decay_too) {
  const Attributes group = {{"weight_decay", 0.5}, {"lr_factor", 0.5}, {"eps", 0.0}};
  OpCase c = adam("AdamW", {2}, {4}, 0.5, 1, group, {{}}, 0);
  c.expected = {doubles({1}, {2 * 0.875 - 0.25})};
  check_op(c);
}

TEST(AdamW, clips_elements_after_the_division) {
  OpCase c = adam("AdamW", {1, 1}, {8, -1}, 0.5, 0.5, {{"clip_value", 2.0}}, {{}, {}}, 0);
  c.expected = {{}, doubles({2}, {0.2, -0.05}), doubles({2}, {0.004, 0.00025})};
  check_op(c);
}

TEST(Adam, a_large_share_of_the_gradient_is_taken_exactly) {
  // torch.lerp starts from the nearer end: beta1 = 0 is the gradient itself.
  OpCase c =
      adam("Adam", {1, 1}, {0.125, 3e7}, 0.5, 1, {{"beta1", 0.0}}, {{3e7, 0}, {0.125, 0}}, 3);
  c.expected = {{}, doubles({2}, {0.125, 3e7})};
  check_op(c);
}

TEST(Adam, a_scale_of_nan_changes_nothing) {
  for (const char* op : {"Adam", "AdamW"}) {
    OpCase c =
        adam(op, {1, -1}, {kInf, kNan}, 0.1, kNan, {{"weight_decay", 0.1}}, {{4, 2}, {8, 3}}, 5);
    c.expected = {doubles({2}, {1, -1}), doubles({2}, {4, 8}), doubles({2}, {2, 3})};
    check_op(c);
  }
}

TEST(Adam, large_parameters_are_cut_between_threads) {
  check_op({.claim = "large",
            .domain = ops::kDomain,
            .op = "AdamW",
            .inputs = {parameter(random({40009})), random({40009}), rate(0.1), scalar(0.5),
                       parameter(random({40009})), parameter(random({40009}, 0.5, 1)), count(7)},
            .attributes = {{"weight_decay", 0.01}},
            .num_outputs = 3});
}

TEST(Adam, o1_to_o4_reject_what_does_not_fit) {
  const auto error = [](const Attributes& attributes) {
    return infer_error(adam("Adam", {1}, {1}, 1, 1, attributes, {{}}, 0));
  };
  EXPECT_NE(error({{"beta1", 1.0}}).find("O4: beta1 is 1, expected at least 0 and below 1"),
            std::string::npos);
  EXPECT_NE(error({{"beta2", -0.1}}).find("O4: beta2 is -0.1"), std::string::npos);
  EXPECT_NE(error({{"eps", -1.0}}).find("O4: eps is -1"), std::string::npos);
  OpCase c = adam("Adam", {1}, {1}, 1, 1, {}, {{}}, 0);
  c.inputs[5] = parameter(given(doubles({2}, {1, 1})));
  EXPECT_NE(infer_error(c).find("O1: input 5 has type float[2]"), std::string::npos);
  c = adam("Adam", {1}, {1}, 1, 1, {}, {{}}, 0);
  c.inputs[6] = scalar(1);
  EXPECT_NE(infer_error(c).find("O2: input 6 has type float[], expected a int64 scalar"),
            std::string::npos);
}

OpCase ema(std::vector<double> average, std::vector<double> w, double scale_value, double decay) {
  const auto n = static_cast<int64_t>(w.size());
  OpCase c{.claim = "ema", .domain = ops::kDomain, .op = "Ema"};
  c.inputs = {parameter(given(doubles({n}, average))), given(doubles({n}, w)), scalar(scale_value)};
  c.attributes = {{"decay", decay}};
  c.must_run = kKernels;
  return c;
}

TEST(Ema, keeps_the_share_that_decay_says) {
  OpCase c = ema({1, 2}, {5, -2}, 1, 0.75);
  c.expected = {doubles({2}, {2, 1})};
  check_op(c);
  c = ema({1, 2}, {5, 3e7}, 1, 0);
  c.expected = {doubles({2}, {5, 3e7})};
  check_op(c);
}

TEST(Ema, a_scale_of_nan_changes_nothing) {
  OpCase c = ema({1, 2}, {5, -2}, kNan, 0.75);
  c.expected = {doubles({2}, {1, 2})};
  check_op(c);
}

TEST(Ema, rejects_a_decay_of_one) {
  EXPECT_NE(
      infer_error(ema({1}, {1}, 1, 1)).find("O4: decay is 1, expected at least 0 and below 1"),
      std::string::npos);
}

TEST(Advance, counts_steps_that_were_not_skipped) {
  OpCase c{.claim = "advance", .domain = ops::kDomain, .op = "Advance"};
  const auto check = [&](int64_t before, double scale_value, int64_t after) {
    c.inputs = {count(before), scalar(scale_value)};
    c.expected = {Tensor::scalar<int64_t>(after)};
    check_op(c);
  };
  check(0, 0.5, 1);
  check(0, 0, 1);
  check(0, kNan, 0);
  check(41, 0.5, 42);
  check(41, kNan, 41);
}

OpCase grad_scale(std::vector<double> inputs, Attributes attributes = {}) {
  OpCase c{.claim = "grad_scale", .domain = ops::kDomain, .op = "GradScale"};
  for (double value : inputs) {
    c.inputs.push_back(c.inputs.size() < 2 ? scalar(value) : exactly(scalar(value)));
  }
  c.attributes = std::move(attributes);
  c.num_outputs = 2;
  c.must_run = {"optimizer.ref"};
  return c;
}

TEST(GradScale, divides_by_the_weight) {
  OpCase c = grad_scale({4, 3, 9, 16});
  c.expected = {doubles({}, {0.25}), doubles({}, {1.25})};
  check_op(c);
  c = grad_scale({4, 3, 9, 16}, {{"divide", int64_t{0}}});
  c.expected = {doubles({}, {1}), doubles({}, {5})};
  check_op(c);
}

TEST(GradScale, is_zero_where_nothing_counted) {
  OpCase c = grad_scale({0, 0, 0});
  c.expected = {doubles({}, {0}), doubles({}, {0})};
  check_op(c);
}

TEST(GradScale, is_nan_when_the_loss_or_a_gradient_is_not_finite) {
  for (const std::vector<double>& inputs :
       {std::vector<double>{4, kNan, 9, 16}, {4, kInf, 9, 16}, {4, 3, kNan, 16}, {4, 3, 9, kInf}}) {
    OpCase c = grad_scale(inputs);
    c.expected = {doubles({}, {kNan})};
    check_op(c);
  }
}

TEST(GradScale, is_nan_when_the_factor_itself_is_not_finite) {
  // 1 / weight is too large for a float; the norm of a gradient of zeros is not.
  OpCase c = grad_scale({0, 3, 0});
  c.inputs[0] = exactly(given(test::floats({}, {1e-40f})));
  c.inputs[1] = exactly(given(test::floats({}, {3})));
  c.expected = {test::floats({}, {std::nanf("")}), test::floats({}, {0})};
  check_op(c);
}

TEST(GradScale, clips_the_norm_of_the_divided_gradient) {
  OpCase c = grad_scale({2, 1, 36, 64}, {{"clip_norm", 2.5}});
  c.expected = {doubles({}, {0.25}), doubles({}, {5})};
  check_op(c);
  c = grad_scale({2, 1, 36, 64}, {{"clip_norm", 6.0}});
  c.expected = {doubles({}, {0.5}), doubles({}, {5})};
  check_op(c);
  // Sums that are not divided are clipped as they are.
  c = grad_scale({2, 1, 36, 64}, {{"clip_norm", 5.0}, {"divide", int64_t{0}}});
  c.expected = {doubles({}, {0.5}), doubles({}, {10})};
  check_op(c);
  EXPECT_NE(infer_error(grad_scale({2, 1, 4}, {{"clip_norm", -1.0}})).find("N3: clip_norm is -1"),
            std::string::npos);
}

TEST(GradScale, takes_squares_that_only_double_holds) {
  OpCase c = grad_scale({1, 3, 9e60});
  c.expected = {doubles({}, {1}), doubles({}, {3e30})};
  check_op(c);
  c.inputs[2] = scalar(9);
  EXPECT_NE(infer_error(c).find("N2: input 2 is float, expected the double of SquaredNorm"),
            std::string::npos);
}

TEST(SquaredNorm, sums_squares_in_pieces) {
  OpCase c{.claim = "norm", .domain = ops::kDomain, .op = "SquaredNorm"};
  c.inputs = {given(doubles({2, 2}, {1, -2, 3, 4}))};
  c.expected = {doubles({}, {30})};
  c.must_run = kKernels;
  check_op(c);
  c.inputs = {given(doubles({0}, {}))};
  c.expected = {doubles({}, {0})};
  check_op(c);
  c.inputs = {random({3, 70001})};
  c.expected = {};
  check_op(c);
  c.inputs = {given(doubles({3}, {1, kInf, kNan}))};
  c.expected = {doubles({}, {kNan})};
  check_op(c);
}

TEST(SquaredNorm, takes_many_tensors_at_once) {
  OpCase c{.claim = "norm", .domain = ops::kDomain, .op = "SquaredNorm"};
  c.inputs = {given(doubles({2}, {1, 2})), given(doubles({0}, {})), given(doubles({1, 1}, {-4}))};
  c.expected = {doubles({}, {21})};
  c.must_run = kKernels;
  check_op(c);
  c.inputs = {random({70001}), random({3}), random({65536 * 2})};
  c.expected = {};
  check_op(c);
  // Squares that a float can't hold.
  c.inputs = {given(doubles({2}, {3e25, 4e25}))};
  c.expected = {doubles({}, {25e50})};
  check_op(c);
}

TEST(Accumulate, adds_in_place) {
  OpCase c{.claim = "accumulate", .domain = ops::kDomain, .op = "Accumulate"};
  c.inputs = {parameter(given(doubles({3}, {1, 2, 3}))), given(doubles({3}, {10, 20, 30}))};
  c.expected = {doubles({3}, {11, 22, 33})};
  c.must_run = kKernels;
  check_op(c);
  c.inputs = {parameter(given(doubles({}, {1}))), given(doubles({}, {10}))};
  c.expected = {doubles({}, {11})};
  check_op(c);
  c.inputs = {parameter(random({3})), random({4})};
  EXPECT_NE(infer_error(c).find("N1: input 0 has type float[3], but input 1 has type float[4]"),
            std::string::npos);
}

}  // namespace
}  // namespace sardonyx::test
