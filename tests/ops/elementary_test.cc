// Expected numbers are those of the functions at one half (Acosh: 3 / 2).
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

OpCase on(std::string op, std::vector<float> x, std::vector<float> y) {
  OpCase c;
  c.claim = op;
  c.op = std::move(op);
  const auto n = static_cast<int64_t>(x.size());
  c.inputs = {given(floats({n}, x))};
  c.expected = {floats({n}, y)};
  c.must_run = {"elementary.ref"};
  return c;
}

struct Point {
  const char* op;
  float x, y;
};

const Point kPoints[] = {
    {"Sin", 0.5f, 0.479425539f},  {"Cos", 0.5f, 0.877582562f},   {"Tan", 0.5f, 0.54630249f},
    {"Asin", 0.5f, 0.523598776f}, {"Acos", 0.5f, 1.04719755f},   {"Atan", 0.5f, 0.463647609f},
    {"Sinh", 0.5f, 0.521095305f}, {"Cosh", 0.5f, 1.12762597f},   {"Asinh", 0.5f, 0.481211825f},
    {"Acosh", 1.5f, 0.96242365f}, {"Atanh", 0.5f, 0.549306144f},
};

TEST(Elementary, functions_have_their_values_and_slopes) {
  for (const Point& point : kPoints) {
    check_op(on(point.op, {point.x}, {point.y}));
    const double low = point.x > 1 ? 1.1 : -0.9;
    check_op({.claim = std::string(point.op) + "_batch",
              .op = point.op,
              .inputs = {random({5, 3, 2}, low, low + 1.8)},
              .batch = true,
              .must_run = {"elementary.ref"}});
  }
}

TEST(Elementary, slopes_are_operators_of_their_own) {
  for (const char* op : {"SinGrad", "CosGrad", "TanGrad", "AsinGrad", "AcosGrad", "AtanGrad",
                         "SinhGrad", "CoshGrad", "AsinhGrad", "AcoshGrad", "AtanhGrad"}) {
    const double low = std::string(op) == "AcoshGrad" ? 1.1 : -0.9;
    check_op({.claim = op,
              .domain = "sardonyx",
              .op = op,
              .inputs = {random({3, 2}, low, low + 1.8), random({3, 2})},
              .batch = true});
  }
}

TEST(Elementary, outside_of_its_domain_a_function_is_nan) {
  for (const auto& [op, x] : {std::pair{"Asin", 2.0f},
                              {"Acos", -2.0f},
                              {"Acosh", 0.5f},
                              {"Atanh", 3.0f},
                              {"Sin", kInf},
                              {"Floor", kNan},
                              {"Sign", kNan}}) {
    OpCase c = on(op, {x}, {kNan});
    c.differentiate = std::vector<int>{};
    check_op(c);
  }
}

TEST(Elementary, steps_round_towards_their_side_and_halves_to_even) {
  const std::vector<float> x = {-2.5f, -1.5f, -0.5f, 0.5f, 1.5f, 2.5f, 3};
  check_op(on("Floor", x, {-3, -2, -1, 0, 1, 2, 3}));
  check_op(on("Ceil", x, {-2, -1, 0, 1, 2, 3, 3}));
  check_op(on("Round", x, {-2, -2, 0, 0, 2, 2, 3}));
  check_op(on("Sign", {-2.5f, 0, 7, -kInf}, {-1, 0, 1, -1}));
}

TEST(Elementary, steps_have_a_zero_gradient_and_say_so) {
  for (const char* name : {"Floor", "Ceil", "Round", "Sign"}) {
    const ops::OpDef* op = ops::OpRegistry::get().find("", name);
    ASSERT_NE(op, nullptr);
    EXPECT_EQ(op->gradient.kind, ops::Gradient::Kind::kZero);
    EXPECT_EQ(op->gradient.reason, "the function is made of steps");
  }
}

TEST(Elementary, sign_takes_integers) {
  check_op({.claim = "int",
            .op = "Sign",
            .inputs = {given(ints({3}, {-5, 0, 9}))},
            .expected = {ints({3}, {-1, 0, 1})}});
}

TEST(Elementary, elementary_c1_rejects_integers) {
  const OpCase c = {.claim = "f", .op = "Floor", .inputs = {given(ints({1}, {1}))}};
  EXPECT_NE(infer_error(c).find("C1: input 0 is int64, expected a floating type"),
            std::string::npos);
}

TEST(Elementary, elementary_c2_rejects_different_shapes) {
  const OpCase c = {
      .claim = "g", .domain = "sardonyx", .op = "SinGrad", .inputs = {random({2}), random({3})}};
  EXPECT_NE(infer_error(c).find("C2: input 0 has type float[2], but input 1 has type float[3]"),
            std::string::npos);
}

}  // namespace
}  // namespace sardonyx::test
