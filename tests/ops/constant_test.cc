// Constant in every form, ConstantOfShape, Range, EyeLike: values, types, refusals.
#include <gtest/gtest.h>

#include <limits>

#include "ops/core/infer.h"
#include "ops/core/normalize.h"
#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

using graph::Attribute;
using graph::Dim;

Tensor literal(const std::string& form, Attribute value) {
  graph::Graph g;
  auto* node = g.add_node("", "Constant", {}, {"y"});
  node->attributes[form] = std::move(value);
  ops::infer_node(*node);
  Tensor result = ops::evaluate(*node, {})[0];
  EXPECT_EQ(result.type(), node->output(0)->type);
  return result;
}

TEST(Constant, takes_every_form_of_its_attribute) {
  EXPECT_TRUE(literal("value", bools({2}, {true, false})).identical(bools({2}, {true, false})));
  EXPECT_TRUE(literal("value_float", 0.1).identical(Tensor::scalar<float>(0.1f)));
  EXPECT_TRUE(
      literal("value_floats", std::vector<double>{1, 2.5}).identical(floats({2}, {1, 2.5})));
  EXPECT_TRUE(literal("value_int", int64_t{-7}).identical(Tensor::scalar<int64_t>(-7)));
  EXPECT_TRUE(literal("value_ints", std::vector<int64_t>{3, 4}).identical(ints({2}, {3, 4})));
  EXPECT_EQ(literal("value_string", std::string("a")).strings(), std::vector<std::string>{"a"});
  EXPECT_EQ(literal("value_strings", std::vector<std::string>{"a", "b"}).shape(),
            std::vector<int64_t>{2});
}

TEST(Constant, is_computed_by_a_kernel_too) {
  check_op({.claim = "value",
            .op = "Constant",
            .attributes = {{"value", floats({2, 1}, {1, 2})}},
            .expected = {doubles({2, 1}, {1, 2})}});
}

std::string constant_error(graph::Attributes attributes) {
  return infer_error({.op = "Constant", .attributes = std::move(attributes)});
}

TEST(Constant, c1_rejects_none_and_two_values) {
  EXPECT_NE(constant_error({}).find("C1: has no value"), std::string::npos);
  EXPECT_NE(constant_error({{"value_int", int64_t{1}}, {"value_float", 1.0}})
                .find("C1: has both value_float and value_int"),
            std::string::npos);
  EXPECT_NE(constant_error({{"sparse_value", std::string()}}).find("sparse"), std::string::npos);
}

OpCase fill(std::vector<int64_t> shape, graph::Attributes attributes = {}) {
  return {.claim = "fill",
          .op = "ConstantOfShape",
          .inputs = {constant_ints(std::move(shape))},
          .attributes = std::move(attributes)};
}

TEST(ConstantOfShape, fills_with_its_value_and_type) {
  OpCase c = fill({2, 2}, {{"value", ints({1}, {7})}});
  c.expected = {ints({2, 2}, {7, 7, 7, 7})};
  check_op(c);
  EXPECT_EQ(inferred_type(c), "int64[2,2]");
  c = fill({3});
  c.expected = {doubles({3}, {0, 0, 0})};
  check_op(c);
  EXPECT_EQ(inferred_type(c), "float[3]");
  c = fill({}, {{"value", bools({1}, {true})}});
  c.expected = {bools({}, {true})};
  check_op(c);
  check_op(fill({0, 3}));
}

TEST(ConstantOfShape, writes_its_default_out_so_that_it_follows_the_compute_type) {
  graph::Graph g;
  auto* node = g.add_node("", "ConstantOfShape", {g.add_constant("s", ints({1}, {2}))}, {"y"});
  ops::normalize_node(*node, 9);
  EXPECT_TRUE(node->get_tensor("value")->identical(floats({1}, {0})));
}

TEST(ConstantOfShape, c2_rejects_a_negative_size) {
  EXPECT_EQ(infer_error(fill({-5})),
            "C2: shape[0] is -5\n  while inferring shapes of node fill (ConstantOfShape)");
}

TEST(ConstantOfShape, c3_rejects_a_value_of_two_elements) {
  EXPECT_NE(
      infer_error(fill({2}, {{"value", floats({2}, {0, 1})}})).find("C3: value has 2 elements"),
      std::string::npos);
}

TEST(ConstantOfShape, refuses_more_than_a_terabyte_before_it_is_allocated) {
  EXPECT_NE(infer_error(fill({int64_t{1} << 40, 4})).find("would need 17592186044416 bytes"),
            std::string::npos);
  EXPECT_NE(infer_error(fill({int64_t{1} << 31, int64_t{1} << 31, 4})).find("2^62 elements"),
            std::string::npos);
}

OpCase range(Tensor start, Tensor limit, Tensor delta) {
  return {.claim = "range",
          .op = "Range",
          .inputs = {exactly(constant(std::move(start))), exactly(constant(std::move(limit))),
                     exactly(constant(std::move(delta)))}};
}

void check_range(Tensor start, Tensor limit, Tensor delta, Tensor expected) {
  OpCase c = range(std::move(start), std::move(limit), std::move(delta));
  c.expected = {std::move(expected)};
  check_op(c);
}

TEST(Range, counts_up_and_down_to_the_limit) {
  const auto i = [](int64_t v) { return Tensor::scalar<int64_t>(v); };
  check_range(i(0), i(3), i(1), ints({3}, {0, 1, 2}));
  check_range(i(1), i(8), i(3), ints({3}, {1, 4, 7}));
  check_range(i(10), i(4), i(-2), ints({3}, {10, 8, 6}));
  check_range(i(5), i(5), i(1), ints({0}, {}));
  check_range(i(5), i(0), i(1), ints({0}, {}));
  check_range(Tensor::scalar<float>(1), Tensor::scalar<float>(2), Tensor::scalar<float>(0.25),
              doubles({4}, {1, 1.25, 1.5, 1.75}));
  check_range(Tensor::scalar<int32_t>(-1), Tensor::scalar<int32_t>(1), Tensor::scalar<int32_t>(1),
              ints({2}, {-1, 0}));
}

TEST(Range, c4_rejects_mixed_types_and_no_step) {
  EXPECT_NE(infer_error(range(Tensor::scalar<int64_t>(0), Tensor::scalar<float>(3),
                              Tensor::scalar<int64_t>(1)))
                .find("C4: input 1 (limit) 'x1' is float[], but input 0 (start) 'x0' is int64[]: "),
            std::string::npos);
  EXPECT_NE(infer_error(
                range(Tensor::scalar<float>(0), Tensor::scalar<float>(3), Tensor::scalar<float>(0)))
                .find("C4: delta is 0"),
            std::string::npos);
}

TEST(Range, has_no_length_before_its_inputs_are_known) {
  graph::Graph g;
  auto* x = g.add_input("x", graph::TensorType(DType::kFloat32, {Dim::named("N")}));
  auto* limit = g.add_input("limit", graph::TensorType(DType::kInt64, {}));
  auto* zero = g.add_constant("zero", Tensor::scalar<int64_t>(0));
  auto* one = g.add_constant("one", Tensor::scalar<int64_t>(1));
  auto* node = g.add_node("", "Range", {zero, limit, one}, {"y"});
  ops::infer_node(*node);
  EXPECT_EQ(node->output(0)->type.str(), "int64[?]");
  x->type.dims[0].value = 4;
  EXPECT_THROW(ops::infer_node(*node), Error);
}

TEST(EyeLike, has_ones_on_the_diagonal_k) {
  const auto eye = [](int64_t k, std::vector<double> expected) {
    check_op({.claim = "eye",
              .op = "EyeLike",
              .inputs = {random({2, 3})},
              .attributes = {{"k", k}},
              .expected = {doubles({2, 3}, expected)}});
  };
  eye(0, {1, 0, 0, 0, 1, 0});
  eye(1, {0, 1, 0, 0, 0, 1});
  eye(-1, {0, 0, 0, 1, 0, 0});
  eye(5, {0, 0, 0, 0, 0, 0});
  eye(std::numeric_limits<int64_t>::max(), {0, 0, 0, 0, 0, 0});
  eye(std::numeric_limits<int64_t>::min(), {0, 0, 0, 0, 0, 0});
  EXPECT_EQ(inferred_type({.op = "EyeLike",
                           .inputs = {random({2, 3})},
                           .attributes = {{"dtype", static_cast<int64_t>(DType::kInt32)}}}),
            "int32[2,3]");
}

TEST(EyeLike, c6_rejects_types_that_are_no_numbers) {
  for (const int64_t dtype : {int64_t{8}, int64_t{999}, int64_t{-1}}) {
    EXPECT_NE(
        infer_error({.op = "EyeLike", .inputs = {random({2, 3})}, .attributes = {{"dtype", dtype}}})
            .find("C6: dtype is"),
        std::string::npos)
        << dtype;
  }
}

TEST(EyeLike, c5_rejects_other_ranks) {
  EXPECT_NE(infer_error({.op = "EyeLike", .inputs = {random({2})}}).find("C5: input has type"),
            std::string::npos);
}

}  // namespace
}  // namespace sardonyx::test
