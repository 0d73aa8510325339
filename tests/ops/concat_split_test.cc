// Concat and Split: parts, left-out parts, gradients into each other, batch roles, refusals.
#include <gtest/gtest.h>

#include <limits>

#include "ops/core/infer.h"
#include "ops/core/normalize.h"
#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

using graph::Attributes;
using graph::Dim;
using ops::BatchRole;
using ops::TensorType;

OpCase concat(std::string claim, std::vector<OpInput> inputs, int64_t axis) {
  return {.claim = std::move(claim),
          .op = "Concat",
          .inputs = std::move(inputs),
          .attributes = {{"axis", axis}}};
}

OpCase split(std::string claim, OpInput x, int64_t axis, std::vector<int64_t> sizes) {
  OpCase c;
  c.claim = std::move(claim);
  c.op = "Split";
  c.attributes = {{"axis", axis}};
  c.num_outputs = static_cast<int>(sizes.size());
  c.inputs = {std::move(x), constant_ints(std::move(sizes))};
  return c;
}

TEST(Concat, puts_its_inputs_one_behind_the_other) {
  OpCase c =
      concat("axis 1", {given(doubles({2, 1}, {1, 2})), given(doubles({2, 2}, {3, 4, 5, 6}))}, 1);
  c.expected = {doubles({2, 3}, {1, 3, 4, 2, 5, 6})};
  c.must_run = {"concat.ref", "concat.strided"};
  check_op(c);
  c = concat("axis 0", {given(doubles({1, 2}, {1, 2})), given(doubles({2, 2}, {3, 4, 5, 6}))}, 0);
  c.expected = {doubles({3, 2}, {1, 2, 3, 4, 5, 6})};
  check_op(c);
  check_op(
      concat("axis -1 of three", {random({2, 3, 1}), random({2, 3, 4}), random({2, 3, 2})}, -1));
  check_op(concat("one input", {random({2, 3})}, 1));
  OpCase empty = concat("with an empty part", {random({2, 3}), random({2, 0}), random({2, 1})}, 1);
  empty.zero_gradients = {1};
  check_op(empty);
}

TEST(Concat, gradient_of_one_input_is_a_slice_and_of_several_a_split) {
  OpCase c = concat("one wanted", {random({2, 3}), random({2, 2}), random({2, 1})}, 1);
  c.differentiate = {{1}};
  check_op(c);
  c.differentiate = {{0, 2}};
  check_op(c);
  c.differentiate = {{0, 1}};  // the Split keeps its last output's slot, left out
  check_op(c);
}

TEST(Concat, works_on_integers) {
  OpCase c = concat("int64", {given(ints({1}, {8})), given(ints({1}, {-1}))}, 0);
  c.expected = {ints({2}, {8, -1})};
  check_op(c);
  EXPECT_EQ(inferred_type(c), "int64[2]");
  c = concat("bool", {given(bools({1}, {true})), given(bools({2}, {false, true}))}, 0);
  c.expected = {bools({3}, {true, false, true})};
  check_op(c);
}

TEST(Concat, runs_per_block_and_in_lanes_beside_axis_0) {
  OpCase c = concat("channels", {random({3, 2, 2}), random({3, 1, 2}), random({3, 3, 2})}, 1);
  c.batch = true;
  c.must_run = {"concat.lanes"};
  check_op(c);
  c = concat("rows", {random({3, 2}), random({3, 2})}, 0);
  c.batch = true;
  check_op(c);
}

std::string concat_type(std::vector<std::vector<Dim>> inputs, int64_t axis,
                        BatchRole* role = nullptr) {
  graph::Graph g;
  g.batch_symbol = "N";
  std::vector<graph::Value*> values;
  for (auto& dims : inputs) {
    values.push_back(
        g.add_input("x" + std::to_string(values.size()), TensorType(DType::kFloat32, dims)));
  }
  auto* node = g.add_node("", "Concat", values, {"y"});
  node->name = "join";
  node->attributes["axis"] = axis;
  ops::infer_node(*node);
  if (role != nullptr) *role = ops::OpRegistry::get().at(*node).batch(*node, 0);
  return node->output(0)->type.str();
}

TEST(Concat, keeps_the_batch_axis) {
  BatchRole role;
  EXPECT_EQ(concat_type({{Dim(8, "N"), 2}, {Dim(8, "N"), 3}}, 1, &role), "float[N:8,5]");
  EXPECT_EQ(role, BatchRole::kRows);
  // A part with all rows (a class token that was expanded) can't be cut along with the others.
  EXPECT_EQ(concat_type({{8, 2}, {Dim(8, "N"), 3}}, 1, &role), "float[N:8,5]");
  EXPECT_EQ(role, BatchRole::kCouples);
  EXPECT_EQ(concat_type({{Dim(8, "N"), 2}, {Dim(8, "N"), 2}}, 0, &role), "float[16,2]");
  EXPECT_EQ(role, BatchRole::kCouples);
  EXPECT_EQ(concat_type({{Dim::named("N"), 2}, {Dim::named("N"), Dim()}}, 1), "float[N,?]");
  EXPECT_EQ(concat_type({{Dim::named("N"), 2}, {4, 2}}, 0), "float[?,2]");
}

TEST(Concat, c1_requires_an_axis_in_range) {
  OpCase c = concat("cat", {random({2})}, 1);
  EXPECT_NE(infer_error(c).find("axis 1 is out of range [-1, 0] for rank 1"), std::string::npos);
  c.attributes.clear();
  EXPECT_EQ(infer_error(c),
            "C1: attribute 'axis' is required\n  while inferring shapes of node cat (Concat)");
}

TEST(Concat, c2_rejects_parts_that_do_not_fit) {
  EXPECT_NE(infer_error(concat("cat", {random({2, 3}), random({3, 3})}, 1))
                .find("C2: axis 0 of input 1 'x1' (float[3,3]) has size 3, expected 2"),
            std::string::npos);
  EXPECT_NE(
      infer_error(concat("cat", {random({2, 3}), random({3})}, 0)).find("C2: input 1 has type"),
      std::string::npos);
  EXPECT_NE(
      infer_error(concat("cat", {random({2}), given(ints({2}, {1, 2}))}, 0))
          .find("C2: input 1 (inputs) 'x1' is int64[2], but input 0 (inputs) 'x0' is float[2]: "),
      std::string::npos);
  try {
    concat_type({{Dim(60, "N"), 2}, {1, 2}}, 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("a batch size is baked into the model"),
              std::string::npos);
  }
}

TEST(Split, cuts_into_the_listed_sizes) {
  OpCase c = split("[1,2]", given(doubles({2, 3}, {1, 2, 3, 4, 5, 6})), 1, {1, 2});
  c.expected = {doubles({2, 1}, {1, 4}), doubles({2, 2}, {2, 3, 5, 6})};
  c.must_run = {"split.ref", "split.strided"};
  check_op(c);
  check_op(split("axis 0", random({4, 2}), 0, {1, 3}));
  check_op(split("axis -2, an empty part", random({2, 3, 2}), -2, {2, 0, 1}));
}

TEST(Split, cuts_into_equal_parts_or_num_outputs_with_a_smaller_last) {
  OpCase c{.claim = "equal", .op = "Split", .inputs = {random({4, 2})}, .num_outputs = 2};
  check_op(c);
  EXPECT_EQ(inferred_type(c, 1), "float[2,2]");
  c = {.claim = "3,3,1",
       .op = "Split",
       .inputs = {random({7})},
       .attributes = {{"num_outputs", int64_t{3}}},
       .num_outputs = 3};
  check_op(c);
  EXPECT_EQ(inferred_type(c, 0), "float[3]");
  EXPECT_EQ(inferred_type(c, 2), "float[1]");
}

TEST(Split, parts_without_gradient_are_zero) {
  OpCase c = split("first and last missing", random({2, 6}), 1, {1, 2, 1, 2});
  c.seeds = {{1, 2}};
  check_op(c);
  c.seeds = {{3}};
  check_op(c);
  c.seeds = {{0, 1, 2}};
  check_op(c);
  c.wanted_outputs = {false, true, true, false};
  c.seeds = std::nullopt;
  check_op(c);
}

TEST(Split, gradient_over_a_gap_adds_two_runs) {
  OpCase c = split("gap", random({2, 6}), 1, {1, 2, 1, 2});
  c.seeds = {{0, 2, 3}};
  check_op(c);
}

TEST(Split, runs_per_block_and_in_lanes_beside_axis_0) {
  OpCase c = split("channels", random({3, 5, 2}), 1, {2, 2, 1});
  c.batch = true;
  c.must_run = {"split.lanes"};
  check_op(c);
}

TEST(Split, keeps_the_batch_axis) {
  graph::Graph g;
  g.batch_symbol = "N";
  auto* x = g.add_input("x", TensorType(DType::kFloat32, {Dim(8, "N"), 6}));
  auto* node = g.add_node("", "Split", {x}, {"a", "b"});
  node->attributes["axis"] = int64_t{1};
  ops::infer_node(*node);
  EXPECT_EQ(node->output(1)->type.str(), "float[N:8,3]");
  EXPECT_EQ(ops::OpRegistry::get().at(*node).batch(*node, 1), BatchRole::kRows);
  node->attributes["axis"] = int64_t{0};
  ops::infer_node(*node);
  EXPECT_EQ(node->output(1)->type.str(), "float[4,6]");
  EXPECT_EQ(ops::OpRegistry::get().at(*node).batch(*node, 1), BatchRole::kCouples);
  x->type.dims[0].value = -1;
  ops::infer_node(*node);
  EXPECT_EQ(node->output(1)->type.str(), "float[?,6]");
}

TEST(Split, c3_rejects_sizes_that_do_not_add_up) {
  EXPECT_NE(infer_error(split("s", random({4}), 0, {1, 2}))
                .find("C3: 2 outputs of sizes [1,2] from an axis of size 4"),
            std::string::npos);
  EXPECT_NE(infer_error(split("s", random({4}), 0, {5, -1})).find("C3: 2 outputs"),
            std::string::npos);
  EXPECT_NE(infer_error({.op = "Split", .inputs = {random({4})}, .num_outputs = 0})
                .find("C3: Split has no outputs"),
            std::string::npos);
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  EXPECT_NE(infer_error(split("s", random({4}), 0, {kHuge, kHuge})).find("C3: 2 outputs"),
            std::string::npos);
  OpCase c{.claim = "s", .op = "Split", .inputs = {random({5})}, .num_outputs = 2};
  EXPECT_NE(infer_error(c).find("C3: an axis of size 5 can't be cut into 2 equal parts"),
            std::string::npos);
  c.num_outputs = 4;
  c.attributes = {{"num_outputs", int64_t{4}}};
  EXPECT_NE(infer_error(c).find("C3: an axis of size 5"), std::string::npos);
  c.attributes = {{"num_outputs", int64_t{3}}};
  EXPECT_NE(infer_error(c).find("C3: num_outputs is 3, but the node has 4 outputs"),
            std::string::npos);
}

TEST(ConcatSplit, old_forms_become_the_newest) {
  graph::Graph g;
  auto* x = g.add_input("x", TensorType(DType::kFloat32, {2, 3}));
  auto* parts = g.add_node("", "Split", {x}, {"a", "b"});
  parts->attributes = {{"axis", int64_t{1}}, {"split", std::vector<int64_t>{1, 2}}};
  ops::normalize_node(*parts, 11);
  ops::infer_node(*parts);
  EXPECT_EQ(parts->output(1)->type.str(), "float[2,2]");
  auto* joined = g.add_node("", "Concat", {x, x}, {"c"});
  ops::normalize_node(*joined, 1);
  ops::infer_node(*joined);
  EXPECT_EQ(joined->output(0)->type.str(), "float[2,6]");
}

}  // namespace
}  // namespace sardonyx::test
