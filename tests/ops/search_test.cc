// ArgMax, ArgMin and TopK: ties, NaN, axes, and the way back of TopK's values.
#include <gtest/gtest.h>

#include <limits>

#include "ops/core/infer.h"
#include "ops/core/normalize.h"
#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

OpCase arg(std::string op, OpInput x, graph::Attributes attributes, Tensor expected) {
  OpCase c;
  c.claim = op;
  c.op = std::move(op);
  c.inputs = {std::move(x)};
  c.attributes = std::move(attributes);
  if (expected.defined()) c.expected = {std::move(expected)};
  c.must_run = {"search.ref"};
  return c;
}

const Tensor kTies = floats({2, 4}, {3, 7, 7, 1, 5, 2, 2, 5});

TEST(Search, arg_max_takes_the_first_of_equal_elements_or_the_last) {
  const graph::Attributes rows = {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}};
  graph::Attributes last = rows;
  last["select_last_index"] = int64_t{1};
  check_op(arg("ArgMax", given(kTies), rows, ints({2}, {1, 0})));
  check_op(arg("ArgMax", given(kTies), last, ints({2}, {2, 3})));
  check_op(arg("ArgMin", given(kTies), rows, ints({2}, {3, 1})));
  check_op(arg("ArgMin", given(kTies), last, ints({2}, {3, 2})));
}

TEST(Search, arg_max_runs_along_axis_0_by_default_and_keeps_it) {
  check_op(arg("ArgMax", given(kTies), {}, ints({1, 4}, {1, 0, 0, 1})));
  check_op(arg("ArgMin", given(kTies), {{"axis", int64_t{-2}}}, ints({1, 4}, {0, 1, 1, 0})));
  check_op(arg("ArgMax", given(ints({3}, {-5, 9, 9})), {}, ints({1}, {1})));
}

TEST(Search, nan_is_found_first) {
  for (const char* op : {"ArgMax", "ArgMin"}) {
    check_op(arg(op, given(floats({4}, {1, kNan, 9, kNan})), {}, ints({1}, {1})));
    check_op(arg(op, given(floats({4}, {1, kNan, 9, kNan})), {{"select_last_index", int64_t{1}}},
                 ints({1}, {3})));
  }
}

TEST(Search, hardmax_marks_the_first_of_the_largest_elements) {
  check_op(arg("Hardmax", given(kTies), {}, floats({2, 4}, {0, 1, 0, 0, 1, 0, 0, 0})));
  check_op(arg("Hardmax", given(kTies), {{"axis", int64_t{0}}},
               floats({2, 4}, {0, 1, 1, 0, 1, 0, 0, 1})));
  check_op(arg("Hardmax", given(floats({3}, {1, kNan, 9})), {}, floats({3}, {0, 1, 0})));
  OpCase c = arg("Hardmax", random({5, 3, 4}), {{"axis", int64_t{1}}}, {});
  c.batch = true;
  check_op(c);
}

// y = Hardmax(x [2, 2, 3]) of an old opset, by its reference kernel.
Tensor old_hardmax(const Tensor& x, graph::Attributes attributes) {
  graph::Graph graph;
  graph::Builder b(graph);
  graph::Value* y = b.op("Hardmax", {b.constant("x", x)}, std::move(attributes));
  ops::normalize_node(*y->producer, 11);
  ops::infer_node(*y->producer);
  return ops::evaluate(*y->producer, {x})[0];
}

TEST(Search, hardmax_below_opset_13_searches_all_axes_from_its_own_on) {
  const Tensor x = floats({2, 2, 3}, {1, 2, 3, 9, 5, 6, 7, 8, 9, 1, 1, 1});
  const std::vector<float> by_row = {0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0};
  EXPECT_EQ(difference(old_hardmax(x, {}), floats({2, 2, 3}, by_row), {}), std::nullopt);
  EXPECT_EQ(difference(old_hardmax(x, {{"axis", int64_t{2}}}),
                       floats({2, 2, 3}, {0, 0, 1, 1, 0, 0, 0, 0, 1, 1, 0, 0}), {}),
            std::nullopt);
}

TEST(Search, rows_of_a_batch_are_searched_one_by_one) {
  OpCase c = arg("ArgMax", random({5, 3, 4}), {{"axis", int64_t{2}}}, {});
  c.batch = true;
  check_op(c);
  EXPECT_EQ(inferred_type(c), "int64[N:5,3,1]");
  c.attributes = {{"axis", int64_t{0}}};
  c.empty_batch = false;
  check_op(c);
}

OpCase top_k(OpInput x, int64_t k, graph::Attributes attributes = {}) {
  return {.claim = fmt::format("top {}", k),
          .op = "TopK",
          .inputs = {std::move(x), constant_ints({k})},
          .attributes = std::move(attributes),
          .num_outputs = 2,
          .must_run = {"search.ref"}};
}

TEST(Search, top_k_sorts_and_takes_the_first_of_equal_elements) {
  OpCase c = top_k(given(kTies), 3);
  c.expected = {floats({2, 3}, {7, 7, 3, 5, 5, 2}), ints({2, 3}, {1, 2, 0, 0, 3, 1})};
  c.numeric = Numeric::kSkip;
  c.dy = {floats({2, 3}, {1, 2, 3, 4, 5, 6})};
  c.expected_gradients = {floats({2, 4}, {3, 1, 2, 0, 4, 6, 0, 5})};
  check_op(c);
  c = top_k(given(kTies), 1, {{"largest", int64_t{0}}, {"axis", int64_t{0}}});
  c.expected = {floats({1, 4}, {3, 2, 2, 1}), ints({1, 4}, {0, 1, 1, 0})};
  check_op(c);
}

TEST(Search, top_k_has_the_gradient_of_a_choice) {
  check_op(top_k(random({3, 5, 2}), 2, {{"axis", int64_t{1}}}));
  OpCase rows = top_k(random({4, 6}), 3, {{"largest", int64_t{0}}});
  rows.batch = true;
  check_op(rows);
  OpCase values_only = top_k(random({4, 6}), 2);
  values_only.wanted_outputs = {true, false};
  check_op(values_only);
}

TEST(Search, top_k_counts_nan_as_larger_than_everything) {
  OpCase c = top_k(given(floats({3}, {1, kNan, 2})), 3);
  c.expected = {floats({3}, {kNan, 2, 1}), ints({3}, {1, 2, 0})};
  c.differentiate = std::vector<int>{};
  check_op(c);
  c = top_k(given(floats({3}, {1, kNan, 2})), 2, {{"largest", int64_t{0}}});
  c.expected = {floats({2}, {1, 2}), ints({2}, {0, 2})};
  c.differentiate = std::vector<int>{};
  check_op(c);
}

TEST(Search, top_0_is_empty) {
  OpCase c = top_k(random({2, 3}), 0);
  c.zero_gradients = {0};
  check_op(c);
}

TEST(Search, old_top_k_has_k_as_an_attribute) {
  graph::Graph g;
  graph::Value* x = g.add_input("x", {graph::DType::kFloat32, {2, 3}});
  graph::Node* node = g.add_node("", "TopK", {x}, {"values", "indices"});
  node->attributes = {{"k", int64_t{2}}};
  ops::normalize_node(*node, 1);
  ASSERT_EQ(node->num_inputs(), 2);
  EXPECT_EQ(node->input(1)->data.to_ints(), std::vector<int64_t>{2});
}

TEST(Search, constraints_are_named) {
  const auto fault = [](const OpCase& c) {
    return infer_error(c).substr(0, infer_error(c).find('\n'));
  };
  EXPECT_EQ(fault(arg("ArgMax", random({2, 3}), {{"axis", int64_t{2}}}, {})),
            "C1: axis 2 is out of range for 2 axes");
  EXPECT_EQ(fault(arg("ArgMax", given(bools({1}, {true})), {}, {})),
            "C2: input 0 is bool, expected numbers");
  EXPECT_EQ(fault(arg("ArgMin", random({2, 0}), {{"axis", int64_t{1}}}, {})),
            "C3: axis 1 of float[2,0] has no entries");
  EXPECT_EQ(fault(top_k(random({2, 3}), 4)),
            "C4: k is 4, but axis 1 of float[2,3] has only 3 entries");
  EXPECT_EQ(fault(top_k(random({2, 3}), -1)), "C4: k is [-1], expected one number from 0 on");
}

}  // namespace
}  // namespace sardonyx::test
