// NonZero and Compress: indices and entries against numpy, what must be known before the run, and
// what a Compress becomes.
#include <gtest/gtest.h>

#include <cmath>

#include "ops/core/infer.h"
#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

using graph::Attributes;
using ops::TensorType;

OpCase nonzero(Tensor x, Tensor y) {
  return {.claim = "nonzero",
          .op = "NonZero",
          .inputs = {constant(std::move(x))},
          .expected = {std::move(y)},
          .must_run = {"nonzero.ref"}};
}

TEST(NonZero, lists_the_indices_of_each_axis_in_row_major_order) {
  check_op(nonzero(floats({2, 3}, {1, 0, -0.0F, NAN, 2, 0}), ints({2, 3}, {0, 1, 1, 0, 0, 1})));
  check_op(nonzero(bools({2, 2}, {true, false, true, true}), ints({2, 3}, {0, 1, 1, 0, 0, 1})));
  check_op(nonzero(ints({4}, {0, -3, 0, 7}), ints({1, 2}, {1, 3})));
  check_op(nonzero(ints({2, 1, 2}, {0, 1, 1, 0}), ints({3, 2}, {0, 1, 0, 0, 1, 0})));
}

TEST(NonZero, of_nothing_of_zeros_and_of_a_scalar) {
  check_op(nonzero(ints({0, 3}, {}), ints({2, 0}, {})));
  check_op(nonzero(ints({3}, {0, 0, 0}), ints({1, 0}, {})));
  check_op(nonzero(Tensor::scalar<int64_t>(5), ints({0, 1}, {})));
  EXPECT_EQ(inferred_type(nonzero(Tensor::scalar<int64_t>(5), ints({0, 1}, {}))), "int64[0,1]");
}

TEST(NonZero, z1_rejects_what_is_no_number) {
  const OpCase c = {
      .claim = "c", .op = "NonZero", .inputs = {constant(Tensor(DType::kComplex64, {1}))}};
  EXPECT_EQ(infer_error(c).find("Z1: x is complex64[1], expected numbers or booleans"), 0u)
      << infer_error(c);
}

TEST(NonZero, z2_refuses_what_is_computed_from_data_and_says_what_to_do) {
  const OpCase c = {.claim = "nz", .op = "NonZero", .inputs = {random({2, 3})}};
  EXPECT_EQ(infer_error(c),
            "input 0 (X) 'x0' must be known before training starts, because its elements decide "
            "how large the output is, but it is computed from data; keep a fixed number of "
            "elements instead: all of them, with those that don't count set to 0 (Where), or the "
            "first few (TopK)\n  while inferring shapes of node nz (NonZero)");
}

TEST(NonZero, refuses_values_that_ask_for_another_size_than_the_plan_has) {
  graph::Graph g;
  graph::Node* node =
      g.add_node("", "NonZero", {g.add_constant("x", floats({3}, {1, 0, 2}))}, {"y"});
  ops::infer_node(*node);
  EXPECT_EQ(node->output(0)->type.str(), "int64[1,2]");
  try {
    ops::evaluate(*node, {floats({3}, {1, 1, 2})});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "node NonZero -> y: the output has 3 entries now, but 2 when the run was planned, "
              "because an input is trained; freeze it");
  }
}

OpCase compress(OpInput x, const std::vector<bool>& condition, Attributes attributes = {}) {
  const auto count = static_cast<int64_t>(condition.size());
  return {.claim = "compress",
          .op = "Compress",
          .inputs = {std::move(x), constant(bools({count}, condition))},
          .attributes = std::move(attributes),
          .must_run = {"compress.ref"}};
}

const Tensor kSix = doubles({2, 3}, {0, 1, 2, 3, 4, 5});

TEST(Compress, keeps_the_entries_of_an_axis_where_the_condition_is_true) {
  OpCase c = compress(given(kSix), {false, true, true}, {{"axis", int64_t{1}}});
  c.expected = {doubles({2, 2}, {1, 2, 4, 5})};
  c.dy = {doubles({2, 2}, {1, 2, 3, 4})};
  c.expected_gradients = {doubles({2, 3}, {0, 1, 2, 0, 3, 4})};
  check_op(c);
  c = compress(given(kSix), {false, true}, {{"axis", int64_t{-2}}});
  c.expected = {doubles({1, 3}, {3, 4, 5})};
  check_op(c);
  c = compress(random({3, 4}), {false, true, true}, {{"axis", int64_t{1}}});
  c.batch = true;
  check_op(c);
  EXPECT_EQ(inferred_type(c), "float[N:3,2]");
}

TEST(Compress, flattens_without_an_axis_and_takes_a_shorter_condition) {
  OpCase c = compress(given(kSix), {false, true, false, false, true});
  c.expected = {doubles({2}, {1, 4})};
  c.dy = {doubles({2}, {10, 20})};
  c.expected_gradients = {doubles({2, 3}, {0, 10, 0, 0, 20, 0})};
  check_op(c);
  c = compress(given(ints({3}, {7, 8, 9})), {false, false});
  c.expected = {ints({0}, {})};
  check_op(c);
}

TEST(Compress, z2_z3_z4_reject_unknown_and_unfit_conditions_and_axes) {
  OpCase c = compress(random({2, 3}), {true, false, true}, {{"axis", int64_t{0}}});
  EXPECT_EQ(infer_error(c).find("Z3: condition is true for entry 2, but there are 2"), 0u);
  c.attributes = {{"axis", int64_t{2}}};
  EXPECT_EQ(infer_error(c).find("Z4: axis 2 is out of range for float[2,3]"), 0u);
  c.inputs[1] = given(bools({2}, {true, false}));
  EXPECT_EQ(infer_error(c).find("input 1 (condition) 'x1' must be known before training"), 0u);
  c.inputs[1] = constant_ints({1, 0});
  EXPECT_EQ(infer_error(c).find("Z3: condition is int64[2], expected a list of booleans"), 0u);
}

}  // namespace
}  // namespace sardonyx::test
