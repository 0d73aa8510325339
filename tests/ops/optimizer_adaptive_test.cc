// The updates of ops/optimizer/adaptive.cc by hand; 200 steps of a session beside PyTorch are in
// tests/runtime/optimizer_test.cc.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

using graph::Attributes;

const double kNan = std::nan("");

OpInput scalar(double value) { return parameter(given(doubles({}, {value}))); }

// Slots left out are empty; `step` < 0: the operator reads none.
OpCase update(const char* op, std::vector<double> w, std::vector<double> g, double lr, double scale,
              Attributes attributes, const std::vector<std::vector<double>>& slots,
              int64_t step = -1) {
  const auto n = static_cast<int64_t>(w.size());
  OpCase c{.claim = op, .domain = ops::kDomain, .op = op};
  c.inputs = {parameter(given(doubles({n}, w))), given(doubles({n}, g)), exactly(scalar(lr)),
              scalar(scale)};
  c.wanted_outputs = {true};
  for (const std::vector<double>& slot : slots) {
    c.inputs.push_back(slot.empty() ? left_out() : parameter(given(doubles({n}, slot))));
    c.wanted_outputs.push_back(!slot.empty());
  }
  if (step >= 0) c.inputs.push_back(parameter(given(Tensor::scalar<int64_t>(step))));
  c.attributes = std::move(attributes);
  c.num_outputs = 1 + static_cast<int>(slots.size());
  c.must_run = {"optimizer.ref", "optimizer.vector"};
  return c;
}

TEST(Adagrad, divides_by_the_root_of_all_squares) {
  OpCase c = update("Adagrad", {1, 2}, {6, 0}, 0.5, 0.5, {{"eps", 1.0}}, {{16, 4}});
  // g 3, 0; h 25, 4; w = 1 - 0.5 * 3 / (5 + 1)
  c.expected = {doubles({2}, {0.75, 2}), doubles({2}, {25, 4})};
  check_op(c);
}

TEST(Adagrad, weight_decay_is_part_of_the_gradient_and_clipping_before_it) {
  OpCase c = update("Adagrad", {2}, {9}, 1, 1,
                    {{"weight_decay", 0.5}, {"clip_value", 3.0}, {"eps", 0.0}}, {{9}});
  // u 3 + 1, h 25
  c.expected = {doubles({1}, {1.2}), doubles({1}, {25})};
  check_op(c);
}

TEST(RmsProp, divides_by_the_root_of_the_mean_of_squares) {
  OpCase c = update("RMSprop", {1}, {4}, 0.5, 1, {{"alpha", 0.75}, {"eps", 1.0}}, {{28}});
  // v 21 + 4
  c.expected = {doubles({1}, {1 - 0.5 * 4 / 6}), doubles({1}, {25})};
  check_op(c);
}

TEST(RmsProp, centered_divides_by_the_standard_deviation_and_momentum_keeps_quotients) {
  OpCase c = update("RMSprop", {1}, {4}, 0.5, 1, {{"alpha", 0.5}, {"eps", 0.0}, {"momentum", 0.25}},
                    {{34}, {2}, {8}});
  // v 25, mean 3, divisor 4, m 2 + 1
  c.expected = {doubles({1}, {-0.5}), doubles({1}, {25}), doubles({1}, {3}), doubles({1}, {3})};
  check_op(c);
}

TEST(RmsProp, momentum_needs_no_mean) {
  OpCase c = update("RMSprop", {1}, {3}, 0.5, 1, {{"alpha", 0.5}, {"eps", 0.0}, {"momentum", 0.5}},
                    {{9}, {}, {2}});
  c.expected = {doubles({1}, {0}), doubles({1}, {9}), {}, doubles({1}, {2})};
  check_op(c);
}

TEST(RmsProp, a_variance_that_rounding_makes_negative_is_0) {
  OpCase c = update("RMSprop", {1}, {3}, 0.5, 1, {{"alpha", 0.5}, {"eps", 1.0}}, {{9}, {3.5}});
  // v 9, mean 3.25, 9 - 10.56
  c.expected = {doubles({1}, {-0.5}), doubles({1}, {9}), doubles({1}, {3.25})};
  check_op(c);
}

TEST(Lion, moves_by_the_sign_of_what_two_shares_mix) {
  OpCase c = update("Lion", {1, 1, 1}, {4, -4, 0}, 0.25, 1, {{"beta1", 0.5}, {"beta2", 0.75}},
                    {{-8, 8, 0}});
  // -2, 2, 0
  c.expected = {doubles({3}, {1.25, 0.75, 1}), doubles({3}, {-5, 5, 0})};
  check_op(c);
}

TEST(Lion, weight_decay_shrinks_the_weight_and_leaves_the_memory_alone) {
  OpCase c =
      update("Lion", {2}, {4}, 0.25, 0.5, {{"weight_decay", 0.5}, {"lr_factor", 2.0}}, {{0}});
  // lr 0.5: 2 * 0.75 - 0.5
  c.expected = {doubles({1}, {1}), doubles({1}, {0.02})};
  check_op(c);
}

TEST(Lamb, moves_by_the_norm_of_the_weights) {
  OpCase c = update("LAMB", {3, 4}, {6, -6}, 0.5, 0.5, {{"eps", 0.0}, {"beta2", 0.75}},
                    {{0, 0}, {0, 0}}, 0);
  // The corrected quotients are 1 and -1, their norm is sqrt(2).
  const double ratio = 0.5 * 5 / std::sqrt(2.0);
  c.expected = {doubles({2}, {3 - ratio, 4 + ratio}), doubles({2}, {0.3, -0.3}),
                doubles({2}, {2.25, 2.25})};
  check_op(c);
}

TEST(Lamb, later_steps_correct_less_and_weight_decay_counts_in_the_norm) {
  OpCase c =
      update("LAMB", {2}, {3}, 0.25, 1,
             {{"beta1", 0.5}, {"beta2", 0.75}, {"eps", 1.0}, {"weight_decay", 0.5}}, {{1}, {4}}, 1);
  // One number: r / |r| * |w| is 2 whatever r is.
  c.expected = {doubles({1}, {1.5}), doubles({1}, {2}), doubles({1}, {5.25})};
  check_op(c);
}

TEST(Lamb, the_ratio_is_1_where_a_norm_is_0) {
  OpCase c = update("LAMB", {0, 0}, {6, -6}, 0.5, 1, {{"eps", 0.0}}, {{0, 0}, {0, 0}}, 0);
  c.expected = {doubles({2}, {-0.5, 0.5})};
  check_op(c);
  c = update("LAMB", {3, 4}, {0, 0}, 0.5, 1, {}, {{0, 0}, {0, 0}}, 0);
  c.expected = {doubles({2}, {3, 4})};
  check_op(c);
}

TEST(Lars, the_rate_of_a_tensor_is_by_its_norm_over_that_of_its_gradient) {
  OpCase c = update("LARS", {3, 4}, {16, 12}, 0.5, 0.5,
                    {{"trust", 0.25}, {"momentum", 0.5}, {"weight_decay", 2.0}}, {{1, 2}});
  // |w| 5, |g| 10; rate 0.5 * 0.25 * 5 / 20 = 1/32; u = 8 + 6, 6 + 8
  c.expected = {doubles({2}, {3 - 0.9375, 4 - 1.4375}), doubles({2}, {0.9375, 1.4375})};
  check_op(c);
}

TEST(Lars, without_momentum_it_keeps_nothing) {
  OpCase c = update("LARS", {3, 4}, {6, 8}, 1, 1, {{"trust", 0.5}}, {});
  c.expected = {doubles({2}, {1.5, 2})};
  check_op(c);
}

TEST(Lars, the_rate_itself_counts_where_the_norm_is_0) {
  OpCase c = update("LARS", {0, 0}, {6, 8}, 0.5, 1, {}, {});
  c.expected = {doubles({2}, {-3, -4})};
  check_op(c);
}

TEST(Adaptive, a_scale_of_nan_changes_nothing) {
  const std::vector<double> w = {1, -1}, bad = {INFINITY, kNan}, a = {4, 8}, b = {2, 3}, m = {1, 5};
  const Tensor tw = doubles({2}, w), ta = doubles({2}, a), tb = doubles({2}, b),
               tm = doubles({2}, m);
  const Attributes decay = {{"weight_decay", 0.1}};
  const Attributes momentum = {{"weight_decay", 0.1}, {"momentum", 0.5}};
  const std::pair<OpCase, std::vector<Tensor>> cases[] = {
      {update("Adagrad", w, bad, 0.1, kNan, decay, {a}), {tw, ta}},
      {update("RMSprop", w, bad, 0.1, kNan, momentum, {a, b, m}), {tw, ta, tb, tm}},
      {update("Lion", w, bad, 0.1, kNan, decay, {a}), {tw, ta}},
      {update("LAMB", w, bad, 0.1, kNan, decay, {a, b}, 3), {tw, ta, tb}},
      {update("LARS", w, bad, 0.1, kNan, momentum, {m}), {tw, tm}}};
  for (auto [c, expected] : cases) {
    c.expected = expected;
    check_op(c);
  }
}

TEST(Adaptive, large_parameters_are_cut_between_threads) {
  // More than two pieces of a norm.
  const std::vector<int64_t> shape = {150001};
  for (const char* op : {"Adagrad", "RMSprop", "Lion", "LAMB", "LARS"}) {
    const std::string name = op;
    OpCase c{.claim = op, .domain = ops::kDomain, .op = op};
    c.inputs = {parameter(random(shape)), random(shape), exactly(scalar(0.1)), scalar(0.5),
                parameter(random(shape, 0.5, 1))};
    c.attributes = {{"weight_decay", 0.01}};
    c.num_outputs = 2;
    if (name == "RMSprop") {
      c.inputs.push_back(parameter(random(shape, 0.1, 0.2)));
      c.num_outputs = 3;
    } else if (name == "LAMB") {
      c.inputs.push_back(parameter(random(shape, 0.5, 1)));
      c.inputs.push_back(parameter(given(Tensor::scalar<int64_t>(7))));
      c.num_outputs = 3;
    } else if (name == "LARS") {
      c.attributes["momentum"] = 0.9;
    }
    check_op(c);
  }
}

TEST(Adaptive, o1_o4_and_o5_reject_what_does_not_fit) {
  const auto error = [](const char* op, const Attributes& attributes,
                        const std::vector<std::vector<double>>& slots, int64_t step = -1) {
    return infer_error(update(op, {1}, {1}, 1, 1, attributes, slots, step));
  };
  const auto says = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  OpCase c = update("Adagrad", {1}, {1}, 1, 1, {}, {{1}});
  c.inputs[4] = parameter(given(doubles({2}, {1, 1})));
  says(infer_error(c), "O1: input 4 has type float[2]");
  says(error("Adagrad", {{"eps", -1.0}}, {{1}}), "O4: eps is -1");
  says(error("RMSprop", {{"alpha", 1.0}}, {{1}}), "O4: alpha is 1");
  says(error("RMSprop", {{"momentum", 0.5}}, {{1}}), "O5: momentum 0.5 needs the input m");
  says(error("RMSprop", {}, {{1}, {}, {1}}), "O5: momentum 0 doesn't go with the input m");
  says(error("Lion", {{"beta2", -0.5}}, {{1}}), "O4: beta2 is -0.5");
  says(error("LAMB", {{"beta1", 1.0}}, {{1}, {1}}, 0), "O4: beta1 is 1");
  says(error("LARS", {{"trust", -1.0}}, {}), "O4: trust is -1");
  says(error("LARS", {{"momentum", 0.5}}, {}), "O5: momentum 0.5 needs the input m");
}

}  // namespace
}  // namespace sardonyx::test
