// The update against runs of torch.optim.SGD that can be done by hand.
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

OpCase sgd(Tensor w, Tensor g, double lr, double scale, Attributes attributes, Tensor m = {},
           int64_t started = 0) {
  OpCase c{.claim = "sgd", .domain = ops::kDomain, .op = "SGD"};
  c.inputs = {parameter(given(std::move(w))), given(std::move(g)), scalar(lr), scalar(scale)};
  c.attributes = std::move(attributes);
  if (m.defined()) {
    c.inputs.push_back(parameter(given(std::move(m))));
    c.inputs.push_back(parameter(given(Tensor::scalar<int64_t>(started))));
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
                   step == 0 ? 0 : 1);
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
            .inputs = {parameter(random({40009})), random({40009}), scalar(0.1), scalar(0.5),
                       parameter(random({40009})), parameter(given(Tensor::scalar<int64_t>(1)))},
            .attributes = options(0.9, 0, 1, 5e-4),
            .num_outputs = 2});
}

TEST(Sgd, o1_to_o4_reject_what_does_not_fit) {
  const auto error = [](OpCase c) { return infer_error(c); };
  const Tensor w = doubles({2}, {1, 2}), one = doubles({1}, {1});
  EXPECT_NE(error(sgd(w, one, 1, 1, {})).find("O1: input 1 has type float[1]"), std::string::npos);
  OpCase lr = sgd(w, w, 1, 1, {});
  lr.inputs[2] = parameter(given(one));
  EXPECT_NE(error(lr).find("O2: input 2 has type float[1], expected a float scalar"),
            std::string::npos);
  EXPECT_NE(error(sgd(w, w, 1, 1, options(0.9))).find("O3: momentum 0.9 needs"), std::string::npos);
  EXPECT_NE(error(sgd(w, w, 1, 1, options(0, 0, 1))).find("O4: nesterov needs momentum above 0"),
            std::string::npos);
  EXPECT_NE(error(sgd(w, w, 1, 1, options(0, 0, 0, -1))).find("O4"), std::string::npos);
}

OpCase grad_scale(std::vector<double> inputs, Attributes attributes = {}) {
  OpCase c{.claim = "grad_scale", .domain = ops::kDomain, .op = "GradScale"};
  for (double value : inputs) c.inputs.push_back(scalar(value));
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

TEST(GradScale, clips_the_norm_of_the_divided_gradient) {
  OpCase c = grad_scale({2, 1, 36, 64}, {{"clip_norm", 2.5}});
  c.expected = {doubles({}, {0.25}), doubles({}, {5})};
  check_op(c);
  c = grad_scale({2, 1, 36, 64}, {{"clip_norm", 6.0}});
  c.expected = {doubles({}, {0.5}), doubles({}, {5})};
  check_op(c);
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

TEST(Started, is_set_by_the_first_step_that_is_not_skipped) {
  OpCase c{.claim = "started", .domain = ops::kDomain, .op = "Started"};
  const auto check = [&](int64_t before, double scale_value, int64_t after) {
    c.inputs = {parameter(given(Tensor::scalar<int64_t>(before))), scalar(scale_value)};
    c.expected = {Tensor::scalar<int64_t>(after)};
    check_op(c);
  };
  check(0, 0.5, 1);
  check(0, 0, 1);
  check(0, kNan, 0);
  check(1, kNan, 1);
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
  EXPECT_NE(infer_error(c).find("O5: input 1 has type float[4], but input 0 has type float[3]"),
            std::string::npos);
}

}  // namespace
}  // namespace sardonyx::test
