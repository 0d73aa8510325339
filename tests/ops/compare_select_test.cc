// Truth tables and small selections, written out.
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

OpCase binary(std::string op, OpInput a, OpInput b, Tensor y) {
  OpCase c;
  c.claim = op;
  c.op = std::move(op);
  c.inputs = {std::move(a), std::move(b)};
  c.expected = {std::move(y)};
  c.must_run = {"compare_select.ref", "compare_select.broadcast"};
  return c;
}

TEST(CompareSelect, comparisons_of_numbers) {
  struct Row {
    const char* op;
    std::vector<bool> y;
  };
  for (const Row& row :
       {Row{"Equal", {false, true, false, false}}, Row{"Less", {true, false, false, false}},
        Row{"Greater", {false, false, true, false}}, Row{"LessOrEqual", {true, true, false, false}},
        Row{"GreaterOrEqual", {false, true, true, false}}}) {
    check_op(binary(row.op, given(floats({4}, {1, 2, 3, kNan})), given(floats({4}, {2, 2, 2, 2})),
                    bools({4}, row.y)));
    const std::vector<bool> three(row.y.begin(), row.y.begin() + 3);
    check_op(binary(row.op, given(ints({3}, {1, 2, 3})), given(ints({}, {2})), bools({3}, three)));
  }
}

TEST(CompareSelect, comparisons_broadcast_and_keep_rows) {
  OpCase c = binary("Less", given(floats({2, 2}, {1, 5, 3, 2})), given(floats({2, 1}, {2, 3})),
                    bools({2, 2}, {true, false, false, true}));
  c.batch = true;
  c.must_run.push_back("compare_select.lanes");
  check_op(c);
  c = binary("Greater", random({70, 700}), random({700}), {});
  check_op(c);
}

TEST(CompareSelect, equal_takes_booleans) {
  check_op(binary("Equal", given(bools({3}, {true, false, true})), given(bools({1}, {true})),
                  bools({3}, {true, false, true})));
}

TEST(CompareSelect, logic_follows_its_truth_tables) {
  const OpInput a = given(bools({4}, {false, false, true, true}));
  const OpInput b = given(bools({4}, {false, true, false, true}));
  check_op(binary("And", a, b, bools({4}, {false, false, false, true})));
  check_op(binary("Or", a, b, bools({4}, {false, true, true, true})));
  check_op(binary("Xor", a, b, bools({4}, {false, true, true, false})));
  check_op({.claim = "Not",
            .op = "Not",
            .inputs = {a},
            .expected = {bools({4}, {true, true, false, false})},
            .batch = true});
}

OpCase asks(std::string op, std::vector<bool> y) {
  OpCase c;
  c.claim = c.op = std::move(op);
  c.inputs = {given(floats({5, 1}, {1, kNan, kInf, -kInf, 0}))};
  c.expected = {bools({5, 1}, std::move(y))};
  c.batch = true;
  c.must_run = {"compare_select.ref"};
  return c;
}

TEST(CompareSelect, is_nan_and_is_inf_tell_what_is_no_finite_number) {
  check_op(asks("IsNaN", {false, true, false, false, false}));
  OpCase c = asks("IsInf", {false, false, true, true, false});
  check_op(c);
  c.attributes = {{"detect_positive", int64_t{0}}};
  c.expected = {bools({5, 1}, {false, false, false, true, false})};
  check_op(c);
  c.attributes = {{"detect_negative", int64_t{0}}};
  c.expected = {bools({5, 1}, {false, false, true, false, false})};
  check_op(c);
}

TEST(CompareSelect, compare_select_c4_is_nan_takes_floats) {
  const OpCase c = {.claim = "c4", .op = "IsNaN", .inputs = {given(ints({1}, {1}))}};
  EXPECT_NE(infer_error(c).find("C4: input 0 is int64, expected a floating type"),
            std::string::npos);
}

OpCase where(OpInput c, OpInput x, OpInput y) {
  OpCase result;
  result.claim = result.op = "Where";
  result.inputs = {std::move(c), std::move(x), std::move(y)};
  return result;
}

TEST(CompareSelect, where_takes_x_or_y) {
  OpCase c = where(given(bools({3}, {true, false, true})),
                   given(floats({2, 3}, {1, 2, 3, 4, 5, 6})), given(floats({}, {9})));
  c.expected = {floats({2, 3}, {1, 9, 3, 4, 9, 6})};
  c.dy = {floats({2, 3}, {1, 2, 3, 4, 5, 6})};
  c.expected_gradients = {Tensor(), floats({2, 3}, {1, 0, 3, 4, 0, 6}), floats({}, {7})};
  c.must_run = {"compare_select.ref", "compare_select.broadcast"};
  check_op(c);
}

TEST(CompareSelect, where_does_not_touch_the_branch_not_taken) {
  OpCase c = where(given(bools({3}, {true, false, true})), given(floats({3}, {1, kNan, 3})),
                   given(floats({3}, {kInf, 5, kNan})));
  c.expected = {floats({3}, {1, 5, 3})};
  c.numeric = Numeric::kSkip;
  c.dy = {floats({3}, {1, 2, 3})};
  c.expected_gradients = {Tensor(), floats({3}, {1, 0, 3}), floats({3}, {0, 2, 0})};
  check_op(c);
}

TEST(CompareSelect, where_masks_lanes) {
  OpCase c = where(constant(bools({2, 2}, {true, false, true, true})), random({5, 3, 2, 2}),
                   constant(floats({1}, {-5})));
  c.batch = true;
  c.differentiate = {{1}};
  c.must_run = {"compare_select.lanes"};
  check_op(c);
}

TEST(CompareSelect, where_selects_by_row) {
  OpCase c = where(given(bools({3, 1}, {true, false, true})), random({3, 4}), random({3, 4}));
  c.batch = true;
  c.must_run = {"compare_select.lanes"};
  check_op(c);
}

TEST(CompareSelect, where_moves_any_type) {
  OpCase c =
      where(given(bools({2}, {false, true})), given(ints({2}, {1, 2})), given(ints({2}, {3, 4})));
  c.expected = {ints({2}, {3, 2})};
  check_op(c);
  c.inputs[1] = given(bools({2}, {true, true}));
  c.inputs[2] = given(bools({2}, {false, false}));
  c.expected = {bools({2}, {false, true})};
  check_op(c);
}

TEST(CompareSelect, compare_select_c1_rejects_shapes_that_do_not_broadcast) {
  OpCase c = where(given(bools({2}, {true, true})), random({3}), random({3}));
  c.claim = "w1";
  EXPECT_EQ(infer_error(c),
            "C1: input 1 has shape [3], which does not broadcast against [2]: axis 0 has 3 and 2"
            "\n  while inferring shapes of node w1 (Where)");
}

TEST(CompareSelect, compare_select_c2_rejects_mixed_and_wrong_types) {
  EXPECT_NE(infer_error(binary("Less", random({2}), given(ints({2}, {1, 2})), {}))
                .find("C2: input 1 (B) 'x1' is int64[2], but input 0 (A) 'x0' is float[2]: "),
            std::string::npos);
  const OpInput flag = given(bools({1}, {true}));
  EXPECT_NE(infer_error(binary("Less", flag, flag, {})).find("C2: input 0 is bool, expected num"),
            std::string::npos);
  EXPECT_NE(infer_error(binary("And", flag, random({1}), {})).find("C2: input 1 is float, expect"),
            std::string::npos);
}

TEST(CompareSelect, compare_select_c3_rejects_conditions_that_are_not_bool) {
  EXPECT_NE(infer_error(where(random({2}), random({2}), random({2})))
                .find("C3: the condition is float, expected bool"),
            std::string::npos);
}

}  // namespace
}  // namespace sardonyx::test
