// Expected numbers are exact small results, worked out by hand.
#include <gtest/gtest.h>

#include <limits>

#include "graph/builder.h"
#include "graph/names.h"
#include "ops/core/normalize.h"
#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

OpCase binary(std::string claim, std::string op, OpInput a, OpInput b) {
  OpCase c;
  c.claim = std::move(claim);
  c.op = std::move(op);
  c.inputs = {std::move(a), std::move(b)};
  return c;
}

struct ShapePair {
  const char* claim;
  std::vector<int64_t> a, b;
};

const ShapePair kShapes[] = {
    {"same", {3, 4}, {3, 4}},
    {"row", {3, 4}, {1, 4}},
    {"vector", {3, 4}, {4}},
    {"scalar", {3, 4}, {}},
    {"channel", {2, 3, 2, 2}, {3, 1, 1}},
    {"both", {1, 4}, {3, 1}},
    {"small_left", {4}, {3, 4}},
    {"rank_raise", {1, 1, 3}, {2, 3}},
    {"column", {3, 4}, {3, 1}},
    {"scalar_left", {}, {2, 3}},
    {"ones", {2, 3}, {1, 1}},
    {"both_of_rank_3", {2, 1, 3}, {4, 1}},
    {"rank_0", {}, {}},
    {"interleaved", {2, 1, 3, 1, 2}, {2, 1, 4, 1}},
};

TEST(Arithmetic, binary_operators_broadcast_every_way) {
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Pow"}) {
    for (const ShapePair& s : kShapes) {
      check_op(
          binary(std::string(op) + "_" + s.claim, op, random(s.a, 0.5, 2), random(s.b, 0.5, 2)));
    }
  }
}

TEST(Arithmetic, add_row_by_row) {
  OpCase c = binary("add", "Add", given(floats({2, 3}, {1, 2, 3, 4, 5, 6})),
                    given(floats({3}, {10, 20, 30})));
  c.expected = {floats({2, 3}, {11, 22, 33, 14, 25, 36})};
  c.dy = {floats({2, 3}, {1, 2, 3, 4, 5, 6})};
  c.expected_gradients = {floats({2, 3}, {1, 2, 3, 4, 5, 6}), floats({3}, {5, 7, 9})};
  c.must_run = {"arithmetic.ref", "arithmetic.broadcast"};
  check_op(c);
}

TEST(Arithmetic, sub_of_a_column) {
  OpCase c =
      binary("sub", "Sub", given(floats({2, 2}, {1, 2, 3, 4})), given(floats({2, 1}, {10, 20})));
  c.expected = {floats({2, 2}, {-9, -8, -17, -16})};
  c.dy = {floats({2, 2}, {1, 2, 3, 4})};
  c.expected_gradients = {floats({2, 2}, {1, 2, 3, 4}), floats({2, 1}, {-3, -7})};
  check_op(c);
}

TEST(Arithmetic, mul_and_div_of_small_numbers) {
  OpCase c = binary("mul", "Mul", given(floats({2, 2}, {1, 2, 3, 4})), given(floats({2}, {2, -1})));
  c.expected = {floats({2, 2}, {2, -2, 6, -4})};
  check_op(c);
  c.op = "Div";
  c.expected = {floats({2, 2}, {0.5, -2, 1.5, -4})};
  c.dy = {floats({2, 2}, {1, 1, 1, 1})};
  c.expected_gradients = {floats({2, 2}, {0.5, -1, 0.5, -1}), floats({2}, {-1, -6})};
  check_op(c);
}

TEST(Arithmetic, parameters_broadcast_over_lanes) {
  const std::vector<std::vector<int64_t>> shapes = {{},     {1},       {4},       {3, 1},
                                                    {3, 4}, {1, 3, 1}, {1, 1, 1}, {1, 3, 4}};
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Pow"}) {
    for (const std::vector<int64_t>& shape : shapes) {
      for (bool left : {false, true}) {
        OpInput x = random({5, 3, 4}, 0.5, 2), w = parameter(random(shape, 0.5, 2));
        OpCase c = binary(
            fmt::format("{} with {}{}", op, graph::shape_str(shape), left ? " on the left" : ""),
            op, left ? w : x, left ? x : w);
        c.batch = true;
        c.must_run = {"arithmetic.ref", "arithmetic.broadcast", "arithmetic.lanes"};
        check_op(c);
      }
    }
  }
}

TEST(Arithmetic, operands_of_one_shape_run_in_any_layout) {
  for (const char* op : {"Add", "Sub", "Mul", "Div"}) {
    OpCase c = binary(op, op, random({5, 3, 2}, 0.5, 2), random({5, 3, 2}, 0.5, 2));
    c.batch = true;
    c.must_run = {"arithmetic.same", "arithmetic.lanes", "arithmetic.broadcast"};
    check_op(c);
  }
}

TEST(Arithmetic, batch_operands_broadcast_against_each_other_in_lanes) {
  OpCase c = binary("squeeze_excite", "Mul", random({5, 3, 4}), random({5, 3, 1}));
  c.batch = true;
  c.must_run = {"arithmetic.lanes"};
  check_op(c);
}

TEST(Arithmetic, rows_that_meet_another_axis_couple_the_batch) {
  // [N,1] + [N] is [N,N]: not a matter of rows.
  OpCase c = binary("outer", "Add", random({3, 1}), random({3}));
  c.batch = true;
  c.expected = {};
  check_op(c);
}

TEST(Arithmetic, a_batch_of_no_rows_has_zero_bias_gradient) {
  OpCase c = binary("empty", "Add", random({0, 3}), parameter(random({3})));
  c.batch = true;
  c.fixed_rows = true;
  c.zero_gradients = {1};
  check_op(c);
}

TEST(Arithmetic, large_tensors_are_cut_between_threads) {
  for (const ShapePair& s :
       {ShapePair{"same", {40, 1111}, {40, 1111}}, ShapePair{"row", {40, 1111}, {1111}},
        ShapePair{"column", {40, 1111}, {40, 1}}, ShapePair{"channel", {7, 5, 1111}, {5, 1}},
        ShapePair{"flat", {44440}, {1}}}) {
    OpCase c = binary(s.claim, "Add", random(s.a), random(s.b));
    c.differentiate = std::vector<int>{};
    check_op(c);
  }
}

TEST(Arithmetic, integers_wrap_and_truncate) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  OpCase c = binary("div", "Div", given(ints({6}, {7, -7, 7, -7, kMin, 0})),
                    given(ints({6}, {2, 2, -2, -2, -1, 5})));
  c.expected = {ints({6}, {3, -3, -3, 3, kMin, 0})};
  check_op(c);
  c = binary("mul", "Mul", given(ints({2}, {3, -4})), given(ints({}, {5})));
  c.expected = {ints({2}, {15, -20})};
  check_op(c);
  c = binary("int32", "Add", given(ints({2}, {2147483647, 1}).cast(graph::DType::kInt32)),
             given(ints({2}, {1, 1}).cast(graph::DType::kInt32)));
  c.expected = {ints({2}, {-2147483648LL, 2})};
  check_op(c);
  c = binary("uint8", "Sub", given(ints({2}, {3, 9}).cast(graph::DType::kUint8)),
             given(ints({2}, {5, 4}).cast(graph::DType::kUint8)));
  c.expected = {ints({2}, {254, 5})};
  check_op(c);
}

TEST(Arithmetic, integer_powers_are_exact_and_wrap) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  // 3^39 has more digits than a double.
  OpCase c = binary("pow", "Pow", given(ints({8}, {3, -3, 2, 2, 0, 7, -1, -1})),
                    given(ints({8}, {39, 39, 63, 64, 0, -2, -3, -4})));
  c.expected = {ints({8}, {4052555153018976267, -4052555153018976267, kMin, 0, 1, 0, -1, 1})};
  check_op(c);
  EXPECT_EQ(reference(c).at(0).to_ints().at(0), 4052555153018976267);
  c = binary("int8", "Pow", given(ints({2}, {2, -2}).cast(graph::DType::kInt8)),
             exactly(given(floats({2}, {6.5F, 9}))));
  c.expected = {ints({2}, {90, -128})};  // a float exponent: truncated, then cut off
  check_op(c);
  c = binary("p1", "Pow", given(ints({1}, {0})), given(ints({1}, {-1})));
  try {
    reference(c);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "0 to the power of -1 is no integer\n  while running node p1 (Pow)");
  }
}

TEST(Arithmetic, integer_division_by_zero_is_an_error) {
  const OpCase c = binary("d1", "Div", given(ints({2}, {7, 8})), given(ints({2}, {1, 0})));
  try {
    reference(c);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "integer division of 8 by zero\n  while running node d1 (Div)");
  }
}

TEST(Arithmetic, pow_of_negative_bases_with_whole_exponents) {
  OpCase c = binary("pow", "Pow", given(floats({4}, {-2, -2, -2, -2})),
                    constant(floats({4}, {2, 3, 1, 0})));
  c.expected = {floats({4}, {4, -8, -2, 1})};
  c.dy = {floats({4}, {1, 1, 1, 1})};
  c.differentiate = {{0}};
  c.expected_gradients = {floats({4}, {-4, 12, 1, 0})};
  check_op(c);
}

TEST(Arithmetic, pow_of_zero) {
  OpCase c =
      binary("pow", "Pow", given(floats({4}, {0, 0, 0, 0})), given(floats({4}, {2, 1, 0, 3})));
  c.expected = {floats({4}, {0, 0, 1, 0})};
  c.numeric = Numeric::kSkip;
  c.dy = {floats({4}, {1, 1, 1, 1})};
  c.expected_gradients = {floats({4}, {0, 1, 0, 0}), floats({4}, {0, 0, 0, 0})};
  c.zero_gradients = {1};
  check_op(c);
}

TEST(Arithmetic, pow_with_one_exponent_takes_short_cuts) {
  for (double e : {2.0, 1.0, -1.0, 0.5, 3.0, 0.0}) {
    OpCase c = binary(fmt::format("pow {}", e), "Pow", random({3, 4}, 0.5, 2),
                      constant(Tensor::scalar<float>(static_cast<float>(e))));
    c.batch = true;
    c.differentiate = {{0}};
    c.must_run = {"arithmetic.lanes"};
    if (e == 0) c.zero_gradients = {0};
    check_op(c);
  }
}

TEST(Arithmetic, pow_takes_integer_exponents) {
  OpCase c = binary("pow", "Pow", given(floats({3}, {2, -3, 4})), constant(ints({}, {2})));
  c.expected = {floats({3}, {4, 9, 16})};
  c.differentiate = {{0}};
  check_op(c);
}

TEST(Arithmetic, gradients_of_pow_broadcast_in_lanes) {
  for (const char* op : {"PowGradBase", "PowGradExponent"}) {
    OpCase c;
    c.claim = c.op = op;
    c.domain = "sardonyx";
    c.inputs = {random({3, 4}, 0.5, 2), parameter(random({4}, 0.5, 2)), random({3, 4})};
    c.batch = true;
    c.must_run = {"arithmetic.ref", "arithmetic.broadcast", "arithmetic.lanes"};
    check_op(c);
  }
}

TEST(Arithmetic, unary_operators) {
  struct Row {
    const char* op;
    std::vector<float> x, y;
  };
  for (const Row& row :
       {Row{"Neg", {-1.5, 0, 2}, {1.5, 0, -2}}, Row{"Abs", {-1.5, 0.5, 2}, {1.5, 0.5, 2}},
        Row{"Sqrt", {0.25, 1, 9}, {0.5, 1, 3}},
        Row{"Exp", {-1, 0, 2}, {0.36787944f, 1, 7.3890561f}},
        Row{"Log", {0.5, 1, 8}, {-0.69314718f, 0, 2.0794415f}},
        Row{"Reciprocal", {0.5, -4, 8}, {2, -0.25, 0.125}}}) {
    const Tensor x = floats({3}, row.x), y = floats({3}, row.y);
    check_op({.claim = row.op, .op = row.op, .inputs = {given(x)}, .expected = {y}});
    check_op({.claim = std::string(row.op) + "_batch",
              .op = row.op,
              .inputs = {random({3, 5}, 0.5, 2)},
              .batch = true,
              .must_run = {"arithmetic.ref", "arithmetic.same"}});
  }
}

TEST(Arithmetic, exp_of_extremes) {
  check_op({.claim = "exp",
            .op = "Exp",
            .inputs = {given(floats({5}, {-kInf, -1000, -103, 88, kInf}))},
            .expected = {floats({5}, {0, 0, 1.4e-45f, 1.6516363e38f, kInf})},
            .expected_tolerance = {1e-5, 1e-40},
            .float_tolerance = {1e-6, 1e-44},
            .differentiate = std::vector<int>{}});
}

TEST(Arithmetic, abs_has_gradient_zero_at_zero) {
  check_op({.claim = "abs",
            .op = "Abs",
            .inputs = {given(floats({4}, {-2, 0, -0.0f, 3}))},
            .dy = {floats({4}, {1, 2, 3, 4})},
            .expected_gradients = {floats({4}, {-1, 0, 0, 4})},
            .numeric = Numeric::kSkip});
}

TEST(Arithmetic, sqrt_at_zero_has_an_infinite_gradient) {
  check_op({.claim = "sqrt",
            .op = "Sqrt",
            .inputs = {given(floats({2}, {0, 4}))},
            .dy = {floats({2}, {1, 1})},
            .expected_gradients = {floats({2}, {kInf, 0.25})},
            .numeric = Numeric::kSkip});
}

TEST(Arithmetic, integers_negate_and_lose_their_sign) {
  check_op({.claim = "neg",
            .op = "Neg",
            .inputs = {given(ints({3}, {-3, 0, 5}))},
            .expected = {ints({3}, {3, 0, -5})}});
  check_op({.claim = "abs",
            .op = "Abs",
            .inputs = {given(ints({3}, {-3, 0, 5}))},
            .expected = {ints({3}, {3, 0, 5})}});
}

TEST(Arithmetic, sum_and_mean_of_three_shapes) {
  OpCase c;
  c.claim = "sum";
  c.op = "Sum";
  c.inputs = {given(floats({2, 3}, {1, 2, 3, 4, 5, 6})), given(floats({3}, {10, 20, 30})),
              given(floats({2, 1}, {100, 200}))};
  c.expected = {floats({2, 3}, {111, 122, 133, 214, 225, 236})};
  c.must_run = {"arithmetic.ref", "arithmetic.broadcast"};
  check_op(c);
  c.claim = c.op = "Mean";
  c.expected = {floats({2, 3}, {37, 40.666668f, 44.333332f, 71.333336f, 75, 78.666664f})};
  check_op(c);
}

TEST(Arithmetic, sum_of_any_number_of_inputs) {
  for (int count : {1, 2, 3, 8, 25}) {
    OpCase c;
    c.claim = fmt::format("sum of {}", count);
    c.op = "Sum";
    for (int i = 0; i < count; ++i) c.inputs.push_back(random({5, 7, 2}));
    c.batch = true;
    c.must_run = {"arithmetic.same", "arithmetic.ref"};
    if (count > 8) c.narrow_tolerance = {0x1p-6, 0x1p-6};  // sums of eight are rounded on the way
    check_op(c);
    c.op = "Mean";
    check_op(c);
  }
}

TEST(Arithmetic, sum_broadcasts_parameters_over_lanes) {
  OpCase c;
  c.claim = "sum";
  c.op = "Sum";
  c.inputs = {parameter(random({4})), random({5, 3, 4}), parameter(random({3, 1})),
              random({5, 3, 4})};
  c.batch = true;
  c.must_run = {"arithmetic.lanes", "arithmetic.broadcast"};
  check_op(c);
}

TEST(Arithmetic, arithmetic_c1_rejects_shapes_that_do_not_broadcast) {
  EXPECT_EQ(infer_error(binary("add_bad", "Add", random({2, 3}), random({4}))),
            "C1: input 1 has shape [4], which does not broadcast against [2,3]: axis 1 has 4 and "
            "3\n  while inferring shapes of node add_bad (Add)");
}

TEST(Arithmetic, arithmetic_c2_rejects_mixed_types) {
  EXPECT_EQ(infer_error(binary("add_ty", "Add", random({2}), given(ints({2}, {1, 2})))),
            "C2: input 1 (B) 'x1' is int64[2], but input 0 (A) 'x0' is float[2]: both must have "
            "one element type; cast one of them, or export the model in one type\n  while "
            "inferring shapes of node add_ty (Add)");
  EXPECT_NE(infer_error(binary("b", "Mul", given(bools({1}, {true})), given(bools({1}, {true}))))
                .find("C2: input 0 is bool, expected numbers"),
            std::string::npos);
}

TEST(Arithmetic, arithmetic_c3_rejects_integers_under_a_root) {
  const OpCase c = {.claim = "s", .op = "Sqrt", .inputs = {given(ints({1}, {4}))}};
  EXPECT_NE(infer_error(c).find("C3: input 0 is int64, expected a floating type"),
            std::string::npos);
}

TEST(Arithmetic, the_batch_symbol_survives_broadcasting) {
  OpCase c = binary("add", "Add", parameter(random({1, 4})), random({3, 4}));
  c.batch = true;
  EXPECT_EQ(inferred_type(c), "float[N:3,4]");
  c.inputs = {parameter(random({1, 4})), random({1, 4})};  // one row is still the batch
  EXPECT_EQ(inferred_type(c), "float[N:1,4]");
}

TEST(Arithmetic, unknown_dimensions_propagate) {
  using graph::Dim;
  const auto type_of_sum = [](std::vector<Dim> a, std::vector<Dim> b) {
    graph::Graph g;
    ops::OpBuilder builder(g);
    return builder
        .op("Add", {g.add_input("a", {graph::DType::kFloat32, std::move(a)}),
                    g.add_input("b", {graph::DType::kFloat32, std::move(b)})})
        ->type.str();
  };
  EXPECT_EQ(type_of_sum({Dim::named("N"), 4}, {4}), "float[N,4]");
  EXPECT_EQ(type_of_sum({Dim::named("N"), 4}, {1, 4}), "float[N,4]");
  EXPECT_EQ(type_of_sum({Dim::named("N"), 4}, {5, 4}), "float[5,4]");
  EXPECT_EQ(type_of_sum({Dim::named("N")}, {Dim::named("M")}), "float[?]");
}

TEST(Arithmetic, gradients_of_pow_have_the_values_of_their_formulas) {
  const auto check = [](const std::string& op, std::vector<float> expected) {
    check_op({.claim = op,
              .domain = "sardonyx",
              .op = op,
              .inputs = {given(floats({3}, {2, 0, 4})), given(floats({3}, {3, 2, 0})),
                         given(floats({3}, {1, 1, 5}))},
              .expected = {floats({3}, expected)}});
  };
  check("PowGradBase", {12, 0, 0});
  check("PowGradExponent", {5.5451774f, 0, 6.9314718f});
}

TEST(Arithmetic, abs_grad_takes_the_sign_of_x_by_rows_and_in_lanes) {
  check_op({.claim = "signs",
            .domain = "sardonyx",
            .op = "AbsGrad",
            .inputs = {given(floats({3}, {-2, 0, 3})), given(floats({3}, {5, 6, 7}))},
            .expected = {floats({3}, {-5, 0, 7})},
            .numeric = Numeric::kSkip,
            .zero_gradients = {0}});
  check_op({.claim = "batch",
            .domain = "sardonyx",
            .op = "AbsGrad",
            .inputs = {random({3, 2}), random({3, 2})},
            .zero_gradients = {0},
            .batch = true});
}

TEST(Arithmetic, old_broadcasting_starts_at_an_axis) {
  OpCase c = binary("old", "Add", given(floats({2, 3, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})),
                    given(floats({3}, {10, 20, 30})));
  c.attributes = {{"legacy_axis", int64_t{1}}};
  c.expected = {floats({2, 3, 2}, {10, 11, 22, 23, 34, 35, 16, 17, 28, 29, 40, 41})};
  c.batch = true;
  c.inputs[1] = parameter(c.inputs[1]);
  check_op(c);
  for (const char* op : {"Sub", "Mul", "Div"}) {
    c = binary(op, op, random({2, 3, 2}), random({2, 3}, 0.5, 1));
    c.attributes = {{"legacy_axis", int64_t{0}}};
    check_op(c);
  }
}

TEST(Arithmetic, normalize_turns_the_old_axis_into_a_private_attribute) {
  graph::Graph g;
  graph::Value* a = g.add_input("a", {graph::DType::kFloat32, {2, 3}});
  graph::Value* b = g.add_input("b", {graph::DType::kFloat32, {2}});
  const auto normalized = [&](graph::Attributes attributes, int64_t opset) {
    graph::Node* node = g.add_node("", "Add", {a, b}, {graph::fresh_name(g, "y")});
    node->attributes = std::move(attributes);
    ops::normalize_node(*node, opset);
    std::string text;
    for (const auto& [name, value] : node->attributes) {
      text += fmt::format("{}={} ", name, node->get_int(name, -1));
    }
    return text;
  };
  const std::vector<int64_t> none;
  EXPECT_EQ(normalized({{"broadcast", int64_t{1}}, {"axis", int64_t{0}}}, 6), "legacy_axis=0 ");
  EXPECT_EQ(normalized({{"broadcast", int64_t{1}}}, 6), "");
  EXPECT_EQ(normalized({{"axis", int64_t{0}}, {"consumed_inputs", none}}, 1), "");
}

}  // namespace
}  // namespace sardonyx::test
