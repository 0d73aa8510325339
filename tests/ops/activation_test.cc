// Expected numbers are those of the formulas on the plate of ops/activation/activation.cc.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/core/normalize.h"
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
  for (const char* op :
       {"Relu", "Sigmoid", "Tanh", "LeakyRelu", "Elu", "Selu", "Celu", "Softplus", "Softsign",
        "Erf", "Gelu", "Swish", "Mish", "HardSwish", "HardSigmoid", "ThresholdedRelu", "Shrink"}) {
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

TEST(Activation, selu_celu_and_softsign_have_the_values_of_their_formulas) {
  check_op(on("Selu", {-5, -0.5, 0.5, 3}, {-1.74625337f, -0.69175819f, 0.525350511f, 3.15210307f}));
  OpCase selu = on("Selu", {-30, 2}, {-6, 6});
  selu.attributes = {{"alpha", 2.0}, {"gamma", 3.0}};
  check_op(selu);
  OpCase celu = on("Celu", {-5, -0.5, 0.5, 3}, {-1.83583f, -0.442398434f, 0.5f, 3});
  celu.attributes = {{"alpha", 2.0}};
  check_op(celu);
  check_op(on("Softsign", {-3, -1, 0.25, 7}, {-0.75f, -0.5f, 0.2f, 0.875f}));
}

TEST(Activation, erf_has_its_values_and_ends_at_one) {
  check_op(
      on("Erf", {-3, -1, -0.5, 0, 0.5, 1, 3},
         {-0.99997791f, -0.842700793f, -0.520499878f, 0, 0.520499878f, 0.842700793f, 0.99997791f}));
  OpCase ends = on("Erf", {-kInf, -20, 20, kInf, kNan}, {-1, -1, 1, 1, kNan});
  ends.differentiate = std::vector<int>{};
  check_op(ends);
}

const std::vector<float> kSome = {-5, -3, -1, -0.5, 0, 0.5, 1, 3};

TEST(Activation, gelu_by_erf_and_by_tanh_differ_in_the_fourth_digit) {
  OpCase c = on("Gelu", kSome,
                {-1.43325786e-6f, -0.00404969409f, -0.158655254f, -0.154268769f, 0, 0.345731231f,
                 0.841344746f, 2.99595031f});
  check_op(c);
  c.attributes = {{"approximate", std::string("tanh")}};
  c.expected = {floats({8}, {-2.2917962e-7f, -0.00363739208f, -0.158808009f, -0.15428599f, 0,
                             0.34571401f, 0.841191991f, 2.99636261f})};
  check_op(c);
}

TEST(Activation, swish_and_mish_have_the_values_of_their_formulas) {
  OpCase swish = on("Swish", kSome,
                    {-0.0334642546f, -0.14227762f, -0.268941421f, -0.188770334f, 0, 0.311229666f,
                     0.731058579f, 2.85772238f});
  check_op(swish);
  swish.attributes = {{"alpha", 2.0}};
  swish.expected = {floats({8}, {-0.000226989344f, -0.00741786947f, -0.119202922f, -0.134470711f, 0,
                                 0.365529289f, 0.880797078f, 2.99258213f})};
  check_op(swish);
  check_op(on("Mish", kSome,
              {-0.0335762377f, -0.145647461f, -0.303401461f, -0.220743775f, 0, 0.375245211f,
               0.865098388f, 2.986535f}));
}

TEST(Activation, hard_swish_has_the_slopes_of_its_outer_pieces_at_its_corners) {
  OpCase c = on("HardSwish", {-4, -3, 0, 3, 5, -kInf, kInf}, {0, 0, 0, 3, 5, 0, kInf});
  c.numeric = Numeric::kSkip;
  c.dy = {floats({7}, {1, 10, 2, 10, 3, 4, 5})};
  c.expected_gradients = {floats({7}, {0, 0, 1, 10, 3, 0, 5})};
  check_op(c);
}

TEST(Activation, hard_sigmoid_is_flat_at_its_corners) {
  OpCase c = on("HardSigmoid", {-3, -2.5, 0, 1, 2.5, 4}, {0, 0, 0.5f, 0.7f, 1, 1});
  c.numeric = Numeric::kSkip;
  c.dy = {floats({6}, {1, 2, 3, 4, 5, 6})};
  c.expected_gradients = {floats({6}, {0, 0, 0.6f, 0.8f, 0, 0})};
  check_op(c);
  c = on("HardSigmoid", {-1, 0, 0.25}, {0, 0.25f, 0.5f});
  c.attributes = {{"alpha", 1.0}, {"beta", 0.25}};
  check_op(c);
}

TEST(Activation, thresholded_relu_is_zero_up_to_its_threshold) {
  OpCase c = on("ThresholdedRelu", {-1, 0.5, 1, 1.5, kNan}, {0, 0, 0, 1.5f, kNan});
  c.numeric = Numeric::kSkip;
  c.dy = {floats({5}, {1, 2, 3, 4, 5})};
  c.expected_gradients = {floats({5}, {0, 0, 0, 4, 5})};
  check_op(c);
  c = on("ThresholdedRelu", {-2, -1, 3}, {0, -1, 3});
  c.attributes = {{"alpha", -1.5}};
  check_op(c);
}

TEST(Activation, shrink_is_zero_up_to_its_bound_and_moves_the_rest_towards_zero) {
  OpCase c =
      on("Shrink", {-2, -1.5, -1, 0, 1.5, 2, kInf, kNan}, {-1.5f, 0, 0, 0, 0, 1.5f, kInf, kNan});
  c.attributes = {{"lambd", 1.5}, {"bias", 0.5}};
  c.numeric = Numeric::kSkip;
  c.dy = {floats({8}, {1, 2, 3, 4, 5, 6, 7, 8})};
  c.expected_gradients = {floats({8}, {1, 0, 0, 0, 0, 6, 7, 8})};
  check_op(c);
  check_op(on("Shrink", {-0.75, -0.25, 0.25, 0.75}, {-0.75f, 0, 0, 0.75f}));  // hard: no bias
}

TEST(Activation, shrink_takes_integers) {
  OpCase c = on("Shrink", {}, {});
  c.inputs = {given(ints({5}, {-3, -1, 0, 1, 3}))};
  c.attributes = {{"lambd", 1.5}, {"bias", 1.5}};
  c.expected = {ints({5}, {-1, 0, 0, 0, 1})};
  c.must_run = {"activation.integers"};
  check_op(c);
}

OpCase swiglu(OpInput a, OpInput b, double alpha = 1) {
  return {.claim = fmt::format("SwiGLU {}", alpha),
          .op = "SwiGLU",
          .inputs = {std::move(a), std::move(b)},
          .attributes = {{"alpha", alpha}},
          .must_run = kVector};
}

TEST(Activation, swiglu_multiplies_with_the_swish_of_its_gate) {
  const OpInput gate = given(floats({4}, {-1, 0, 1, 3})), value = given(floats({4}, {2, 5, -2, 1}));
  OpCase c = swiglu(gate, value);
  c.expected = {floats({4}, {-0.537882842f, 0, -1.46211716f, 2.85772238f})};
  c.dy = {floats({4}, {1, 1, 1, 1})};
  // b (s + a s (1 - s)) and a s, where s = Sigmoid(a)
  c.expected_gradients = {floats({4}, {0.144658985f, 2.5f, -1.85534102f, 1.08810407f}),
                          floats({4}, {-0.268941421f, 0, 0.731058579f, 2.85772238f})};
  check_op(c);
  c = swiglu(gate, value, 2);
  c.expected = {floats({4}, {-0.238405844f, 0, -1.76159416f, 2.99258213f})};
  check_op(c);
}

TEST(Activation, swiglu_runs_by_rows_and_on_empty_batches) {
  OpCase c = swiglu(random({5, 3, 2}, -3, 3), random({5, 3, 2}, -3, 3), 0.5);
  c.batch = true;
  check_op(c);
}

TEST(Activation, activation_c2_swiglu_broadcasts_nothing) {
  EXPECT_NE(infer_error(swiglu(random({2, 3}), random({3})))
                .find("C2: input 0 has type float[2,3], but input 1 has type float[3]"),
            std::string::npos)
      << infer_error(swiglu(random({2, 3}), random({3})));
}

// 4001 numbers across [-limit, limit].
OpInput spread(float limit) {
  std::vector<float> x;
  for (int i = 0; i <= 4000; ++i) x.push_back(limit * (static_cast<float>(i) / 2000 - 1));
  return given(floats({4001}, x));
}

TEST(Activation, float_keeps_its_digits_in_both_tails) {
  struct Range {
    const char* op;
    float limit;
    double error;  // in ulps of float, at most
  };
  for (const Range& range : {Range{"Erf", 5, 4}, Range{"Erf", 0.9f, 3}, Range{"Gelu", 12, 6},
                             Range{"Elu", 12, 4}, Range{"Mish", 12, 8}, Range{"Swish", 80, 6}}) {
    check_op({.claim = fmt::format("{} to {}", range.op, range.limit),
              .op = range.op,
              .inputs = {spread(range.limit)},
              .float_tolerance = {range.error * 1.2e-7, 0},
              .differentiate = std::vector<int>{},
              .must_run = kVector});
  }
  check_op({.claim = "slope of Erf",
            .domain = "sardonyx",
            .op = "ErfGrad",
            .inputs = {spread(8), constant(floats({4001}, std::vector<float>(4001, 1)))},
            .float_tolerance = {6 * 1.2e-7, 0},
            .differentiate = std::vector<int>{}});
}

TEST(Activation, slopes_at_infinity_are_zero_or_one) {
  for (const char* op : {"GeluGrad", "SwishGrad", "MishGrad", "HardSwishGrad"}) {
    check_op({.claim = op,
              .domain = "sardonyx",
              .op = op,
              .inputs = {given(floats({5}, {-kInf, -1000, 1000, kInf, kNan})),
                         given(floats({5}, {2, 3, 4, 5, 6}))},
              .expected = {floats({5}, {0, 0, 4, 5, kNan})},
              .differentiate = std::vector<int>{},
              .must_run = kVector});
  }
  check_op({.claim = "by tanh",
            .domain = "sardonyx",
            .op = "GeluGrad",
            .inputs = {given(floats({4}, {-kInf, -1e20f, 1e20f, kInf})),
                       given(floats({4}, {2, 3, 4, 5}))},
            .attributes = {{"approximate", std::string("tanh")}},
            .expected = {floats({4}, {0, 0, 4, 5})},
            .differentiate = std::vector<int>{}});
  for (const char* op : {"ErfGrad", "SoftsignGrad"}) {
    check_op({.claim = op,
              .domain = "sardonyx",
              .op = op,
              .inputs = {given(floats({2}, {-kInf, kInf})), given(floats({2}, {2, 3}))},
              .expected = {floats({2}, {0, 0})},
              .differentiate = std::vector<int>{}});
  }
}

TEST(Activation, gradients_that_read_x_run_by_rows_and_in_lanes) {
  for (const char* op : {"SeluGrad", "CeluGrad", "SoftsignGrad", "ErfGrad", "GeluGrad", "SwishGrad",
                         "MishGrad", "HardSwishGrad"}) {
    check_op({.claim = op,
              .domain = "sardonyx",
              .op = op,
              .inputs = {random({3, 4}, -4, 4), random({3, 4})},
              .batch = true,
              .must_run = kVector});
  }
}

TEST(Activation, selu_of_opset_1_has_the_digits_of_its_time) {
  graph::Graph g;
  graph::Value* x = g.add_input("x", {graph::DType::kFloat32, {2}});
  const auto gamma_at = [&](int64_t opset) {
    graph::Node* node = g.add_node("", "Selu", {x}, {fmt::format("y{}", opset)});
    ops::normalize_node(*node, opset);
    return node->get_float("gamma", 0);
  };
  EXPECT_EQ(gamma_at(1), 1.0507);
  EXPECT_EQ(gamma_at(6), 0);  // the default
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

TEST(Activation, clip_takes_integers_of_any_width) {
  const auto as = [](DType dtype, const std::vector<int64_t>& values) {
    return ints({static_cast<int64_t>(values.size())}, values).cast(dtype);
  };
  for (const DType dtype : {DType::kInt8, DType::kInt16, DType::kUint8, DType::kUint16,
                            DType::kUint32, DType::kUint64}) {
    const Tensor low = Tensor::scalar<int64_t>(2).cast(dtype);
    check_op({.claim = fmt::format("clip_{}", graph::dtype_name(dtype)),
              .op = "Clip",
              .inputs = {given(as(dtype, {1, 2, 5, 127})), constant(low)},
              .expected = {as(dtype, {2, 2, 5, 127})},
              .must_run = {"activation.integers"}});
  }
}

TEST(Activation, gradients_of_gradients_match_central_differences) {
  for (const char* op :
       {"ReluGrad", "SigmoidGrad", "TanhGrad", "LeakyReluGrad", "HardSigmoidGrad", "ClipGrad"}) {
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

TEST(Activation, gradient_of_thresholded_relu_has_a_gradient) {
  check_op({.claim = "ThresholdedReluGrad",
            .domain = "sardonyx",
            .op = "ThresholdedReluGrad",
            .inputs = {random({3, 4}), random({3, 4})},
            .attributes = {{"alpha", 0.1}},
            .zero_gradients = {0},
            .batch = true,
            .must_run = kVector});
}

TEST(Activation, gradient_of_shrink_has_a_gradient) {
  check_op({.claim = "ShrinkGrad",
            .domain = "sardonyx",
            .op = "ShrinkGrad",
            .inputs = {random({3, 4}), random({3, 4})},
            .attributes = {{"lambd", 0.25}},
            .zero_gradients = {0},
            .batch = true,
            .must_run = kVector});
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

TEST(Activation, activation_c4_rejects_other_approximations) {
  const OpCase c = {.claim = "g",
                    .op = "Gelu",
                    .inputs = {random({2})},
                    .attributes = {{"approximate", std::string("sigmoid")}}};
  EXPECT_NE(infer_error(c).find("C4: approximate is 'sigmoid', expected none or tanh"),
            std::string::npos);
}

TEST(Activation, the_batch_symbol_is_kept) {
  const OpCase c = {.claim = "r", .op = "Relu", .inputs = {random({3, 4})}, .batch = true};
  EXPECT_EQ(inferred_type(c), "float[N:3,4]");
}

TEST(Activation, c3_refuses_bounds_of_another_type) {
  const OpCase c = {.op = "Clip", .inputs = {random({2}), given(ints({}, {0}))}};
  EXPECT_NE(infer_error(c).find("C3: input 1 (min) 'x1' is int64[], but input 0 (X) 'x0' is "
                                "float[2]: "),
            std::string::npos);
}

}  // namespace
}  // namespace sardonyx::test
