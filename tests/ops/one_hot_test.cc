// Marks written out.
#include <gtest/gtest.h>

#include "ops/core/normalize.h"
#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

using graph::DType;

OpCase one_hot(OpInput indices, int64_t depth, OpInput values, int64_t axis = -1) {
  return {.claim = fmt::format("OneHot axis {}", axis),
          .op = "OneHot",
          .inputs = {std::move(indices), constant_ints({depth}), std::move(values)},
          .attributes = {{"axis", axis}},
          .must_run = {"one_hot.ref"}};
}

const Tensor kOffOn = floats({2}, {2, 5});

TEST(OneHot, marks_indices_from_both_ends_and_nothing_beyond) {
  OpCase c = one_hot(given(ints({5}, {0, 2, -1, 3, -4})), 3, given(kOffOn));
  c.expected = {floats({5, 3}, {5, 2, 2, 2, 2, 5, 2, 2, 5, 2, 2, 2, 2, 2, 2})};
  check_op(c);
}

TEST(OneHot, the_new_axis_stands_anywhere) {
  const OpInput indices = given(ints({2, 2}, {0, 1, 1, 1}));
  OpCase c = one_hot(indices, 2, given(kOffOn), 0);
  c.expected = {floats({2, 2, 2}, {5, 2, 2, 2, 2, 5, 5, 5})};
  check_op(c);
  c.attributes["axis"] = int64_t{1};
  c.expected = {floats({2, 2, 2}, {5, 2, 2, 5, 2, 2, 5, 5})};
  check_op(c);
  c.attributes["axis"] = int64_t{-2};
  check_op(c);
}

TEST(OneHot, takes_numbers_of_any_type) {
  OpCase c = one_hot(exactly(given(floats({3}, {1.9f, -0.5f, -1}))), 2, given(ints({2}, {0, 7})));
  c.inputs[1] = exactly(constant(floats({}, {2})));
  c.expected = {ints({3, 2}, {0, 7, 7, 0, 0, 7})};
  c.differentiate = std::vector<int>{};
  check_op(c);
  c = one_hot(given(ints({2}, {1, 255}).cast(DType::kUint8)), 3, given(bools({2}, {false, true})));
  c.expected = {bools({2, 3}, {false, true, false, false, false, false})};
  check_op(c);
}

TEST(OneHot, values_get_the_sums_of_what_they_were_taken_for) {
  OpCase c = one_hot(given(ints({2}, {1, 9})), 3, given(kOffOn));
  c.dy = {floats({2, 3}, {1, 10, 100, 2, 20, 200})};
  c.expected_gradients = {Tensor(), Tensor(), floats({2}, {323, 10})};
  check_op(c);
}

TEST(OneHot, rows_of_a_batch_are_marked_one_by_one) {
  for (int64_t axis : {-1, 1, 0}) {
    OpCase c = one_hot(given(ints({5, 2}, {0, 1, 2, 3, 4, 0, 1, 2, 3, 4})), 5,
                       parameter(given(kOffOn)), axis);
    c.batch = true;
    c.differentiate = std::vector<int>{};
    check_op(c);
  }
  EXPECT_EQ(inferred_type(one_hot(random({4, 2}), 3, given(kOffOn))), "float[4,2,3]");
}

TEST(OneHot, values_of_the_file_are_no_weights) {
  graph::Graph graph;
  graph::Builder b(graph);
  graph::Value* values = b.constant("values", kOffOn);
  values->origin.kind = graph::Origin::Kind::kInitializer;
  graph::Value* y =
      b.op("OneHot", {b.constant("i", ints({1}, {0})), b.constant("n", ints({}, {2})), values});
  ops::normalize_node(*y->producer, 13);
  EXPECT_EQ(y->producer->input(2)->origin.kind, graph::Origin::Kind::kNone);
  EXPECT_TRUE(y->producer->input(2)->data.identical(kOffOn));
  EXPECT_TRUE(values->uses().empty());
}

TEST(OneHot, one_hot_c1_rejects_an_axis_out_of_range) {
  EXPECT_NE(infer_error(one_hot(given(ints({2}, {0, 1})), 3, given(kOffOn), 2))
                .find("C1: axis 2 is out of range for 2 axes"),
            std::string::npos);
}

TEST(OneHot, one_hot_c2_rejects_booleans) {
  EXPECT_NE(infer_error(one_hot(given(bools({1}, {true})), 3, given(kOffOn)))
                .find("C2: input 0 is bool, expected numbers"),
            std::string::npos);
}

TEST(OneHot, one_hot_c3_rejects_a_negative_depth) {
  EXPECT_NE(infer_error(one_hot(given(ints({1}, {0})), -1, given(kOffOn)))
                .find("C3: depth is [-1], expected one number from 0 on"),
            std::string::npos);
}

TEST(OneHot, one_hot_c4_rejects_one_value) {
  EXPECT_NE(infer_error(one_hot(given(ints({1}, {0})), 3, given(floats({1}, {1}))))
                .find("C4: values has type float[1], expected two elements"),
            std::string::npos);
}

}  // namespace
}  // namespace sardonyx::test
