// Expected numbers are those of the formulas on the plate of ops/activation/activation.cc.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
const std::vector<std::string> kVector = {"activation.ref", "activation.vector"};

OpCase on(std::string op, std::vector<float> x, std::vector<float> y) {
  OpCase c;
  c.claim = op;
  c.op = op;
  const auto n = static_cast<int64_t>(x.size());
  c.inputs = {given(floats({n}, x))};
  c.expected = {floats({n}, y)};
  c.must_run = kVector;
  return c;
}

TEST(Activation, relu_keeps_positive_numbers) {
  check_op(on("Relu", {-2, -0.5, 0.25, 3, 100}, {0, 0, 0.25, 3, 100}));
}

TEST(Activation, relu_has_gradient_zero_at_zero) {
  OpCase c = on("Relu", {0.0f, -0.0f, 1}, {0, 0, 1});
  c.numeric = Numeric::kSkip;
  c.dy = {floats({3}, {5, 6, 7})};
  c.expected_gradients = {floats({3}, {0, 0, 7})};
  check_op(c);
}

TEST(Activation, relu_lets_nan_through) {
  OpCase c = on("Relu", {kNan, kInf, -kInf}, {kNan, kInf, 0});
  c.differentiate = std::vector<int>{};
  check_op(c);
}

TEST(Activation, every_activation_runs_by_rows_in_lanes_and_on_empty_batches) {
  for (const char* op : {"Relu", "Sigmoid", "Tanh", "LeakyRelu", "Elu", "Softplus"}) {
    check_op({.claim = std::string(op) + "_batch",
              .op = op,
              .inputs = {random({5, 3, 2}, -3, 3)},
              .batch = true,
              .must_run = kVector});
  }
}

TEST(Activation, large_tensors_are_cut_between_threads) {
  check_op({.claim = "relu_large",
            .op = "Relu",
            .inputs = {random({3, 40009}, -3, 3)},
            .differentiate = std::vector<int>{}});
  check_op({.claim = "sigmoid_large",
            .op = "Sigmoid",
            .inputs = {random({3, 4009}, -9, 9)},
            .differentiate = std::vector<int>{}});
}

TEST(Activation, sigmoid_saturates_without_nan) {
  OpCase c = on("Sigmoid", {-1000, -20, -1, 0, 1, 20, 1000, -kInf, kInf, kNan},
                {0, 2.0611537e-9f, 0.26894142f, 0.5f, 0.73105858f, 1.0f, 1, 0, 1, kNan});
  c.differentiate = std::vector<int>{};
  check_op(c);
}

TEST(Activation, tanh_is_exact_near_zero_and_saturates) {
  OpCase c = on("Tanh", {-50, -1, -1e-3f, 0, 1e-3f, 0.624f, 0.626f, 9, kInf, kNan},
                {-1, -0.76159416f, -9.9999967e-4f, 0, 9.9999967e-4f, 0.553906928f, 0.555291749f,
                 0.99999997f, 1, kNan});
  c.differentiate = std::vector<int>{};
  c.float_tolerance = {1e-6, 0};
  check_op(c);
}

TEST(Activation, leaky_relu_has_slope_alpha_at_zero) {
  OpCase c = on("LeakyRelu", {-2, 0, 3}, {-0.02f, 0, 3});
  c.numeric = Numeric::kSkip;
  c.dy = {floats({3}, {1, 10, 100})};
  c.expected_gradients = {floats({3}, {0.01f, 0.1f, 100})};
  check_op(c);
}

TEST(Activation, leaky_relu_takes_any_slope) {
  for (double alpha : {0.2, 0.0, -0.5, 1.5}) {
    check_op({.claim = fmt::format("leaky {}", alpha),
              .op = "LeakyRelu",
              .inputs = {random({4, 5}, -2, 2)},
              .attributes = {{"alpha", alpha}}});
  }
}

TEST(Activation, elu_with_alpha_half) {
  OpCase c = on("Elu", {-1, -30, 0.5, 2}, {-0.31606028f, -0.5f, 0.5f, 2});
  c.attributes = {{"alpha", 0.5}};
  check_op(c);
}

TEST(Activation, softplus_of_huge_numbers_is_finite) {
  check_op(on("Softplus", {-1000, 0, 1000}, {0, 0.69314718f, 1000}));
}

OpCase clip(std::vector<OpInput> bounds, std::vector<float> y, std::vector<float> dx) {
  OpCase c;
  c.claim = "Clip";
  c.op = "Clip";
  c.inputs = {given(floats({6}, {-3, -1, 0, 1, 2, 5}))};
  for (OpInput& b : bounds) c.inputs.push_back(b);
  c.expected = {floats({6}, y)};
  c.numeric = Numeric::kSkip;
  c.dy = {floats({6}, {1, 2, 3, 4, 5, 6})};
  c.expected_gradients = {floats({6}, dx)};
  c.must_run = kVector;
  c.zero_gradients = {0};
  return c;
}

const OpInput kMinusOne = constant(Tensor::scalar<float>(-1));
const OpInput kTwo = given(Tensor::scalar<float>(2));

TEST(Activation, clip_has_gradient_one_on_its_bounds) {
  check_op(clip({kMinusOne, kTwo}, {-1, -1, 0, 1, 2, 2}, {0, 2, 3, 4, 5, 0}));
}

TEST(Activation, clip_bounds_are_optional) {
  check_op(clip({kMinusOne}, {-1, -1, 0, 1, 2, 5}, {0, 2, 3, 4, 5, 6}));
  check_op(clip({left_out(), kTwo}, {-3, -1, 0, 1, 2, 2}, {1, 2, 3, 4, 5, 0}));
  check_op(clip({}, {-3, -1, 0, 1, 2, 5}, {1, 2, 3, 4, 5, 6}));
}

TEST(Activation, clip_with_min_above_max_is_max_everywhere) {
  check_op(clip({kTwo, kMinusOne}, {-1, -1, -1, -1, -1, -1}, {0, 0, 0, 0, 0, 0}));
}

TEST(Activation, clip_runs_in_lanes) {
  check_op({.claim = "clip_lanes",
            .op = "Clip",
            .inputs = {random({3, 4}, -3, 3), kMinusOne, constant(Tensor::scalar<float>(2))},
            .batch = true,
            .must_run = {"activation.lanes"}});
}

TEST(Activation, clip_takes_integers) {
  check_op({.claim = "clip_int",
            .op = "Clip",
            .inputs = {given(ints({4}, {-5, 0, 3, 9})), constant(Tensor::scalar<int64_t>(-1)),
                       constant(Tensor::scalar<int64_t>(4))},
            .expected = {ints({4}, {-1, 0, 3, 4})},
            .must_run = {"activation.integers"}});
}

TEST(Activation, gradients_of_gradients_match_central_differences) {
  for (const char* op : {"ReluGrad", "SigmoidGrad", "TanhGrad", "LeakyReluGrad", "ClipGrad"}) {
    check_op({.claim = op,
              .domain = "sardonyx",
              .op = op,
              .inputs = {random({3, 4}, -0.9, 0.9), random({3, 4}, -2, 2)},
              .zero_gradients = {0},
              .batch = true,
              .must_run = kVector});
  }
  check_op({.claim = "EluGrad",
            .domain = "sardonyx",
            .op = "EluGrad",
            .inputs = {random({3, 4}), random({3, 4})},
            .batch = true});
}

TEST(Activation, activation_c1_rejects_integers) {
  const std::string message = infer_error(on("Tanh", {}, {}));
  EXPECT_EQ(message, "");
  const OpCase c = {.claim = "t1", .op = "Tanh", .inputs = {given(ints({2}, {1, 2}))}};
  EXPECT_EQ(infer_error(c),
            "C1: input 0 is int64, expected a floating type\n  while inferring shapes of node t1 "
            "(Tanh)");
}

TEST(Activation, activation_c2_rejects_different_shapes) {
  const OpCase c = {.claim = "g1",
                    .domain = "sardonyx",
                    .op = "ReluGrad",
                    .inputs = {random({2, 3}), random({3, 2})}};
  EXPECT_EQ(infer_error(c),
            "C2: input 0 has type float[2,3], but input 1 has type float[3,2]\n  while inferring "
            "shapes of node g1 (sardonyx.ReluGrad)");
}

TEST(Activation, activation_c3_rejects_bounds_with_several_elements) {
  const OpCase c = {
      .claim = "c1", .op = "Clip", .inputs = {random({2}), constant(floats({2}, {0, 1}))}};
  EXPECT_NE(infer_error(c).find("C3: bound min has type float[2], expected one element"),
            std::string::npos);
}

TEST(Activation, the_batch_symbol_is_kept) {
  const OpCase c = {.claim = "r", .op = "Relu", .inputs = {random({3, 4})}, .batch = true};
  EXPECT_EQ(inferred_type(c), "float[N:3,4]");
}

}  // namespace
}  // namespace sardonyx::test
