// The optimizers of ai.onnx.preview.training, by hand; gradients through a step by differences.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

using graph::Attributes;

OpCase step(const char* op, double rate, int64_t t, const std::vector<std::vector<double>>& tensors,
            int outputs, Attributes attributes) {
  OpCase c{.claim = op, .domain = "ai.onnx.preview.training", .op = op};
  c.inputs = {given(doubles({}, {rate})), exactly(given(Tensor::scalar<int64_t>(t)))};
  for (const std::vector<double>& tensor : tensors) {
    c.inputs.push_back(given(doubles({static_cast<int64_t>(tensor.size())}, tensor)));
  }
  c.num_outputs = outputs;
  c.attributes = std::move(attributes);
  c.must_run = {"preview_training.ref"};
  return c;
}

Attributes momentum(const char* mode, double norm = 0) {
  return {{"alpha", 0.5}, {"beta", 0.25}, {"mode", mode}, {"norm_coefficient", norm}};
}

TEST(PreviewMomentum, takes_the_whole_gradient_in_the_first_step) {
  OpCase c = step("Momentum", 0.5, 0, {{1, 2}, {4, -4}, {2, 6}}, 2, momentum("standard"));
  c.expected = {doubles({2}, {-1.5, 2.5}), doubles({2}, {5, -1})};
  check_op(c);
}

TEST(PreviewMomentum, takes_the_share_beta_later) {
  OpCase c = step("Momentum", 0.5, 3, {{1, 2}, {4, -4}, {2, 6}}, 2, momentum("standard", 2));
  // u 6, 0; v 1 + 1.5, 3
  c.expected = {doubles({2}, {-0.25, 0.5}), doubles({2}, {2.5, 3})};
  check_op(c);
}

TEST(PreviewMomentum, nesterov_looks_ahead) {
  OpCase c = step("Momentum", 0.5, 3, {{1}, {4}, {2}}, 2, momentum("nesterov"));
  // v 2; 4 + 0.5 * 2
  c.expected = {doubles({1}, {-1.5}), doubles({1}, {2})};
  check_op(c);
}

TEST(PreviewMomentum, updates_several_tensors) {
  OpCase c =
      step("Momentum", 1, 0, {{1}, {2, 3}, {4}, {5, 6}, {0}, {2, 4}}, 4, momentum("standard"));
  c.expected = {doubles({1}, {-3}), doubles({2}, {-4, -5}), doubles({1}, {4}),
                doubles({2}, {6, 8})};
  check_op(c);
}

TEST(PreviewAdagrad, the_rate_decays_by_steps) {
  OpCase c = step("Adagrad", 3, 2, {{1, 1}, {4, 3}, {9, 16}}, 2,
                  {{"decay_factor", 0.25}, {"epsilon", 1.0}});
  // rate 2; 2 * 4 / (5 + 1), 2 * 3 / 6
  c.expected = {doubles({2}, {1 - 8.0 / 6, 0}), doubles({2}, {25, 25})};
  check_op(c);
}

TEST(PreviewAdagrad, regularisation_is_part_of_the_gradient) {
  OpCase c =
      step("Adagrad", 1, 0, {{2}, {2}, {9}}, 2, {{"norm_coefficient", 1.0}, {"epsilon", 0.0}});
  c.expected = {doubles({1}, {2 - 4.0 / 5}), doubles({1}, {25})};
  check_op(c);
}

TEST(PreviewAdam, corrects_nothing_at_step_0) {
  OpCase c = step("Adam", 0.5, 0, {{1}, {4}, {2}, {20}}, 3,
                  {{"alpha", 0.5}, {"beta", 0.5}, {"epsilon", 0.0}});
  // v 3, h 18
  c.expected = {doubles({1}, {1 - 1.5 / std::sqrt(18.0)}), doubles({1}, {3}), doubles({1}, {18})};
  check_op(c);
}

TEST(PreviewAdam, corrects_by_powers_of_its_shares_and_shrinks_at_the_end) {
  OpCase c = step("Adam", 0.5, 2, {{1}, {3}, {2}, {16}}, 3,
                  {{"alpha", 0.5},
                   {"beta", 0.5},
                   {"epsilon", 1.0},
                   {"norm_coefficient", 1.0},
                   {"norm_coefficient_post", 0.25}});
  // u 4, v 3, h 16; rate 0.5 * sqrt(0.75) / 0.75
  c.expected = {doubles({1}, {0.75 * (1 - 0.5 / std::sqrt(0.75) * 3 / 5)}), doubles({1}, {3}),
                doubles({1}, {16})};
  check_op(c);
}

TEST(PreviewTraining, wrong_operands_are_refused) {
  const auto says = [](const OpCase& c, const char* part) {
    EXPECT_NE(infer_error(c).find(part), std::string::npos) << infer_error(c);
  };
  OpCase c = step("Adagrad", 1, 0, {{1}, {2}, {3}}, 2, {});
  c.inputs[0] = given(doubles({1}, {1}));
  says(c, "P1: the rate has type float[1], expected a floating scalar");
  c = step("Adagrad", 1, 0, {{1}, {2}, {3}}, 2, {});
  c.inputs[1] = given(doubles({}, {1}));
  says(c, "P1: the step has type float[], expected an int64 scalar");
  says(step("Adagrad", 1, 0, {{1}, {2}}, 2, {}), "P2: 2 tensors and 2 outputs");
  says(step("Adam", 1, 0, {{1}, {2}, {3}, {4}}, 2, {}), "P2: 4 tensors and 2 outputs");
  says(step("Adagrad", 1, 0, {{1}, {2, 2}, {3}}, 2, {}), "P3: input 3 has type float[2]");
  says(step("Momentum", 1, 0, {{1}, {2}, {3}}, 2, {{"alpha", 0.5}, {"beta", 0.5}}),
       "P4: attribute norm_coefficient is not given");
  says(step("Momentum", 1, 0, {{1}, {2}, {3}}, 2, momentum("heavy")),
       "P4: mode is 'heavy', expected standard or nesterov");
}

}  // namespace
}  // namespace sardonyx::test
