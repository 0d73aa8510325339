// Reshape, Flatten, Squeeze, Unsqueeze, Identity: shapes, how the batch axis is followed, baked
// batches, old opsets, gradients.
#include <gtest/gtest.h>

#include "ops/core/constraint.h"
#include "ops/core/infer.h"
#include "ops/core/normalize.h"
#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

using graph::Dim;
using ops::BatchRole;
using ops::TensorType;

// A node over one value of the given type and a constant of integers, in a graph of batch "N".
struct Typed {
  graph::Graph graph;
  graph::Node* node = nullptr;

  Typed(const std::string& op, std::vector<Dim> dims, std::optional<std::vector<int64_t>> ints = {},
        graph::Attributes attributes = {}) {
    graph.batch_symbol = "N";
    std::vector<graph::Value*> inputs{
        graph.add_input("x", TensorType(DType::kFloat32, std::move(dims)))};
    if (ints) {
      const int64_t count = std::ssize(*ints);
      inputs.push_back(graph.add_constant("ints", Tensor::of<int64_t>({count}, *ints)));
    }
    node = graph.add_node("", op, inputs, {"y"});
    node->name = "r1";
    node->attributes = std::move(attributes);
  }
  std::string type() {
    ops::infer_node(*node);
    return node->output(0)->type.str();
  }
  BatchRole role() {
    ops::infer_node(*node);
    return ops::OpRegistry::get().at(*node).batch(*node, 0);
  }
  std::string error() {
    try {
      ops::infer_node(*node);
    } catch (const ops::ConstraintError& error) {
      return error.constraint() + ": " + error.what();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
};

std::string reshaped(std::vector<Dim> dims, std::vector<int64_t> shape) {
  return Typed("Reshape", std::move(dims), std::move(shape)).type();
}

std::string reshape_error(std::vector<Dim> dims, std::vector<int64_t> shape,
                          graph::Attributes attributes = {}) {
  return Typed("Reshape", std::move(dims), std::move(shape), std::move(attributes)).error();
}

const Dim kN8(8, "N");
const Dim kN = Dim::named("N");

TEST(Reshape, the_batch_axis_keeps_its_symbol) {
  EXPECT_EQ(reshaped({kN8, 50, 4, 4}, {8, 800}), "float[N:8,800]");
  EXPECT_EQ(reshaped({kN8, 50, 4, 4}, {-1, 800}), "float[N:8,800]");
  EXPECT_EQ(reshaped({kN8, 50, 4, 4}, {0, -1}), "float[N:8,800]");
  EXPECT_EQ(reshaped({kN8, 800}, {8, 50, 4, 4}), "float[N:8,50,4,4]");
  EXPECT_EQ(reshaped({kN8, 6}, {-1, 2, 1, 3}), "float[N:8,2,1,3]");
  EXPECT_EQ(reshaped({kN8, 1, 1, 6}, {8, -1}), "float[N:8,6]");
  EXPECT_EQ(reshaped({Dim(1, "N"), 50}, {1, 5, 10}), "float[N:1,5,10]");
}

TEST(Reshape, an_unknown_batch_stays_unknown_and_named) {
  EXPECT_EQ(reshaped({kN, 50, 4, 4}, {-1, 800}), "float[N,800]");
  EXPECT_EQ(reshaped({kN, 50, 4, 4}, {0, -1}), "float[N,800]");
  EXPECT_EQ(reshaped({kN, 50}, {-1, 7}), "float[?,7]");
  EXPECT_EQ(reshaped({kN, 50}, {-1, 10}), "float[\"N*5\",10]");
  // A number in its place is the only batch that fits.
  EXPECT_EQ(reshaped({kN, 50, 4, 4}, {8, 800}), "float[N:8,800]");
  EXPECT_EQ(reshaped({kN, Dim(), 4}, {-1, 4}), "float[?,4]");
  EXPECT_EQ(reshaped({kN, Dim(), 4}, {0, -1}), "float[N,?]");
  EXPECT_EQ(reshaped({kN, Dim(), Dim(), Dim()}, {0, 3, -1}), "float[N,3,?]");
}

TEST(Reshape, a_batch_of_no_rows_is_followed_too) {
  EXPECT_EQ(reshaped({Dim(0, "N"), 50, 4, 4}, {-1, 800}), "float[N:0,800]");
  EXPECT_EQ(reshaped({Dim(0, "N"), 50, 4, 4}, {0, -1}), "float[N:0,800]");
  EXPECT_EQ(reshaped({Dim(0, "N"), 50}, {-1}), "float[\"N*50\":0]");
  EXPECT_EQ(reshaped({Dim(0, "N"), 50}, {-1, 7}), "float[0,7]");
}

TEST(Reshape, a_merged_batch_comes_back_when_it_is_split) {
  EXPECT_EQ(reshaped({kN8, 5, 64}, {-1, 64}), "float[\"N*5\":40,64]");
  EXPECT_EQ(reshaped({Dim(40, "N*5"), 64}, {8, 5, 64}), "float[N:8,5,64]");
  EXPECT_EQ(reshaped({Dim(40, "N*5"), 64}, {-1, 5, 64}), "float[N:8,5,64]");
  EXPECT_EQ(reshaped({Dim::named("N*5"), 64}, {-1, 5, 64}), "float[N,5,64]");
  // Tokens outermost: the first of the two axes is not the batch.
  EXPECT_EQ(reshaped({5, kN8, 64}, {40, 64}), "float[\"5*N\":40,64]");
  EXPECT_EQ(reshaped({Dim(40, "5*N"), 64}, {8, 5, 64}), "float[8,5,64]");
  EXPECT_EQ(reshaped({Dim(40, "5*N"), 64}, {5, 8, 64}), "float[5,N:8,64]");
  // Heads of an attention that keeps tokens in front.
  EXPECT_EQ(reshaped({5, kN8, 64}, {5, 32, 16}), "float[5,\"N*4\":32,16]");
  EXPECT_EQ(reshaped({5, Dim(32, "N*4"), 16}, {5, 8, 64}), "float[5,N:8,64]");
}

TEST(Reshape, a_batch_of_one_row_is_merged_like_any_other) {
  EXPECT_EQ(reshaped({Dim(1, "N"), 7, 6}, {-1, 6}), "float[\"N*7\":7,6]");
  EXPECT_EQ(reshaped({Dim(1, "N"), 7, 6}, {7, 6}), "float[\"N*7\":7,6]");
  EXPECT_EQ(reshaped({Dim(7, "N*7"), 16}, {1, 7, 2, 8}), "float[N:1,7,2,8]");
  EXPECT_EQ(reshaped({7, Dim(1, "N"), 6}, {-1, 6}), "float[\"7*N\":7,6]");
  EXPECT_EQ(reshaped({7, Dim(1, "N"), 16}, {7, 2, 8}), "float[7,\"N*2\":2,8]");
  EXPECT_EQ(reshaped({7, Dim(1, "N"), 6}, {-1, 1, 6}), "float[\"7*N\":7,1,6]");
}

TEST(Reshape, axes_that_are_no_whole_axes_lose_their_symbols) {
  EXPECT_EQ(reshaped({kN8, 6}, {6, 8}), "float[6,8]");
  EXPECT_EQ(reshaped({kN8, 6}, {4, 12}), "float[4,12]");
  EXPECT_EQ(reshaped({kN8, 12}, {16, 6}), "float[\"N*2\":16,6]");
  EXPECT_EQ(reshaped({kN8, 6}, {1, 8, 6}), "float[1,N:8,6]");
}

TEST(Reshape, batch_role_is_rows_only_when_both_sides_show_the_batch) {
  EXPECT_EQ(Typed("Reshape", {kN8, 6}, {{8, 2, 3}}).role(), BatchRole::kRows);
  EXPECT_EQ(Typed("Reshape", {kN8, 6}, {{48}}).role(), BatchRole::kCouples);
  EXPECT_EQ(Typed("Reshape", {Dim(48, "N*6")}, {{8, 6}}).role(), BatchRole::kCouples);
  EXPECT_EQ(Typed("Flatten", {kN8, 2, 3}).role(), BatchRole::kRows);
  EXPECT_EQ(Typed("Identity", {kN8}).role(), BatchRole::kRows);
  EXPECT_EQ(Typed("Unsqueeze", {kN8}, {{0}}).role(), BatchRole::kCouples);
}

TEST(Reshape, c5_names_a_batch_that_is_baked_into_the_shape) {
  const std::string error = reshape_error({Dim(60, "N"), 50, 4, 4}, {8, 800});
  EXPECT_EQ(error,
            "C5: the batch size 8 is baked into the shape: [N:60,50,4,4] (48000 elements) can't "
            "take the shape [8,800] (6400 elements), because the batch here is 60; export the "
            "model with a dynamic batch axis, or train with --micro-batch 8 and a --batch that is "
            "a multiple of it\n"
            "  while inferring shapes of node r1 (Reshape)");
  // What x.view(x.size(0), -1) becomes when traced with one image.
  EXPECT_EQ(reshape_error({Dim(3, "N"), 8}, {1, -1}).substr(0, 104),
            "C5: the batch size 1 is baked into the shape: [N:3,8] (24 elements) can't take the "
            "shape [1,-1], because");
  EXPECT_EQ(reshape_error({Dim(1, "N"), 800}, {8, -1}).substr(0, 45),
            "C5: the batch size 8 is baked into the shape:");
  // Tokens in front, batch and heads behind.
  EXPECT_NE(reshape_error({5, Dim(60, "N"), 64}, {5, 32, 16}).find("batch size 8 is baked"),
            std::string::npos);
}

TEST(Reshape, channels_of_all_samples_may_become_channels_of_one) {
  EXPECT_EQ(reshaped({Dim(3, "N"), 4, 2, 2}, {1, -1, 2, 2}), "float[1,\"N*4\":12,2,2]");
  EXPECT_EQ(reshaped({Dim(3, "N"), 4, 2, 2}, {1, -1, 0, 0}), "float[1,\"N*4\":12,2,2]");
  EXPECT_EQ(reshaped({1, Dim(12, "N*4"), 2, 2}, {-1, 4, 2, 2}), "float[N:3,4,2,2]");
  EXPECT_NE(reshape_error({Dim(3, "N"), 4, 2, 2}, {1, 4, -1}).find("batch size 1 is baked"),
            std::string::npos);
  EXPECT_NE(reshape_error({Dim(3, "N"), 4, 4}, {1, -1, 2}).find("batch size 1 is baked"),
            std::string::npos);
}

TEST(Reshape, c4_rejects_another_number_of_elements) {
  EXPECT_EQ(reshape_error({3, 4}, {5, -1}),
            "C4: [3,4] (12 elements) can't take the shape [5,-1] (a multiple of 5 elements)\n"
            "  while inferring shapes of node r1 (Reshape)");
  EXPECT_EQ(reshape_error({3, 4}, {5, 2}).substr(0, 64),
            "C4: [3,4] (12 elements) can't take the shape [5,2] (10 elements)");
  EXPECT_NE(reshape_error({kN, 4}, {7}).find("C4"), std::string::npos);
  EXPECT_NE(
      reshape_error({0, 0, 0, 0}, {3, 2}).find("C4: float[0,0,0,0] can't take the shape [3,2]"),
      std::string::npos);
  EXPECT_NE(reshape_error({3, 4}, {0, 0}, {{"allowzero", int64_t{1}}}).find("C4"),
            std::string::npos);
}

TEST(Reshape, c2_rejects_impossible_targets) {
  EXPECT_NE(reshape_error({3, 4}, {-1, -1}).find("C2: shape [-1,-1] has more than one -1"),
            std::string::npos);
  EXPECT_NE(reshape_error({3, 4}, {-2, 4}).find("C2: shape[0] is -2"), std::string::npos);
  EXPECT_NE(reshape_error({3, 4}, {3, 4, 0})
                .find("C2: shape[2] is 0 (copy that axis), but the "
                      "input float[3,4] has 2 axes"),
            std::string::npos);
  EXPECT_NE(reshape_error({0, 4}, {0, -1}, {{"allowzero", int64_t{1}}}).find("C2: shape [0,-1]"),
            std::string::npos);
}

TEST(Reshape, allowzero_makes_an_empty_axis) {
  const auto allow = [](std::vector<Dim> dims, std::vector<int64_t> shape) {
    return Typed("Reshape", std::move(dims), std::move(shape), {{"allowzero", int64_t{1}}}).type();
  };
  EXPECT_EQ(allow({0, 3}, {3, 0}), "float[3,0]");
  EXPECT_EQ(allow({Dim(0, "N"), 6}, {0, 2, 3}), "float[N:0,2,3]");
  EXPECT_EQ(allow({0, 0, 5}, {0}), "float[0]");
}

TEST(Reshape, waits_for_a_shape_that_is_not_folded_yet) {
  graph::Graph g;
  auto* x = g.add_input("x", TensorType(DType::kFloat32, {kN, 4}));
  auto* shape = g.add_input("s", TensorType(DType::kInt64, {3}));
  auto* node = g.add_node("", "Reshape", {x, shape}, {"y"});
  ops::infer_node(*node);
  EXPECT_EQ(node->output(0)->type.str(), "float[?,?,?]");
  // With all inputs bound it can't become known any more.
  x->type.dims[0].value = 8;
  try {
    ops::infer_node(*node);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("input 1 (shape) 's' must be known"),
              std::string::npos);
  }
}

TEST(Reshape, leaves_an_unknown_operator_in_front_of_its_shape_to_be_reported) {
  graph::Graph g;
  auto* x = g.add_input("x", TensorType(DType::kFloat32, {8, 4}));
  auto* shape = g.add_node("", "Frobnicate", {x}, {"s"})->output(0);
  shape->type = TensorType(DType::kInt64, {2});
  auto* node = g.add_node("", "Reshape", {x, shape}, {"y"});
  ops::infer_node(*node);
  EXPECT_EQ(node->output(0)->type.str(), "float[?,?]");
}

TEST(Reshape, moves_no_element_and_its_gradient_moves_back) {
  const Tensor x = doubles({2, 3}, {1, 2, 3, 4, 5, 6});
  check_op({.claim = "[2,3] to [3,2]",
            .op = "Reshape",
            .inputs = {given(x), constant_ints({3, 2})},
            .expected = {doubles({3, 2}, {1, 2, 3, 4, 5, 6})}});
  check_op({.claim = "[2,3] to [1,-1,1]",
            .op = "Reshape",
            .inputs = {given(x), constant_ints({1, -1, 1})},
            .expected = {doubles({1, 6, 1}, {1, 2, 3, 4, 5, 6})}});
  check_op({.claim = "one element to rank 0",
            .op = "Reshape",
            .inputs = {random({1, 1}), constant_ints({})}});
  check_op(
      {.claim = "rank 0 to [1,1]", .op = "Reshape", .inputs = {random({}), constant_ints({1, 1})}});
  check_op({.claim = "a batch",
            .op = "Reshape",
            .inputs = {random({3, 2, 4}), constant_ints({-1, 8})},
            .batch = true});
  check_op({.claim = "an empty axis moves",
            .op = "Reshape",
            .inputs = {random({0, 3}), constant_ints({3, 0})},
            .attributes = {{"allowzero", int64_t{1}}},
            .zero_gradients = {0}});
}

TEST(Reshape, works_on_strings_and_integers) {
  graph::Graph g;
  auto* x = g.add_constant("x", Tensor::of_strings({2, 1}, {"a", "b"}));
  auto* shape = g.add_constant("s", Tensor::of<int64_t>({1}, {2}));
  auto* node = g.add_node("", "Reshape", {x, shape}, {"y"});
  ops::infer_node(*node);
  EXPECT_EQ(ops::evaluate(*node, {x->data, shape->data})[0].strings(),
            (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(
      inferred_type({.op = "Reshape", .inputs = {given(ints({2}, {1, 2})), constant_ints({2, 1})}}),
      "int64[2,1]");
}

TEST(Flatten, groups_the_axes_at_axis) {
  const auto flat = [](std::vector<Dim> dims, int64_t axis) {
    return Typed("Flatten", std::move(dims), {}, {{"axis", axis}}).type();
  };
  EXPECT_EQ(flat({2, 3, 4}, 0), "float[1,24]");
  EXPECT_EQ(flat({2, 3, 4}, 1), "float[2,12]");
  EXPECT_EQ(flat({2, 3, 4}, 3), "float[24,1]");
  EXPECT_EQ(flat({2, 3, 4}, -1), "float[6,4]");
  EXPECT_EQ(flat({6}, 0), "float[1,6]");
  EXPECT_EQ(flat({kN8, 3, 4}, 1), "float[N:8,12]");
  EXPECT_EQ(flat({kN, 3, 4}, 1), "float[N,12]");
  EXPECT_EQ(flat({kN, Dim(), 4}, 1), "float[N,?]");
  EXPECT_EQ(flat({kN8, 3, 4}, 2), "float[\"N*3\":24,4]");
  EXPECT_EQ(flat({Dim(0, "N"), 3, 4}, 1), "float[N:0,12]");
  EXPECT_EQ(Typed("Flatten", {2, 3, 4, 5}).type(), "float[2,60]");
}

TEST(Flatten, c1_rejects_an_axis_out_of_range) {
  EXPECT_EQ(Typed("Flatten", {2, 3, 4}, {}, {{"axis", int64_t{5}}}).error(),
            "C1: axis 5 is out of range [-3, 3] for rank 3\n"
            "  while inferring shapes of node r1 (Flatten)");
}

TEST(Flatten, gradient_has_the_shape_of_the_input) {
  check_op({.claim = "axis 2",
            .op = "Flatten",
            .inputs = {random({2, 3, 4})},
            .attributes = {{"axis", int64_t{2}}}});
  check_op({.claim = "batch", .op = "Flatten", .inputs = {random({3, 2, 4})}, .batch = true});
}

TEST(Squeeze, drops_the_listed_axes_or_all_of_size_one) {
  EXPECT_EQ(Typed("Squeeze", {kN8, 3, 1, 1}, {{2, -1}}).type(), "float[N:8,3]");
  EXPECT_EQ(Typed("Squeeze", {kN, 3, Dim()}, {{2}}).type(), "float[N,3]");
  EXPECT_EQ(Typed("Squeeze", {1, 3, 1, 2}).type(), "float[3,2]");
  EXPECT_EQ(Typed("Squeeze", {kN, 1}).type(), "float");
  check_op({.claim = "all ones", .op = "Squeeze", .inputs = {random({1, 3, 1, 2})}});
  check_op({.claim = "axis -1",
            .op = "Squeeze",
            .inputs = {random({2, 3, 1}), constant_ints({-1})},
            .batch = true});
}

TEST(Squeeze, c3_rejects_an_axis_that_is_not_one) {
  EXPECT_EQ(Typed("Squeeze", {2, 3}, {{1}}).error(),
            "C3: axis 1 of float[2,3] has size 3, expected 1\n"
            "  while inferring shapes of node r1 (Squeeze)");
  EXPECT_NE(Typed("Squeeze", {2, 1}, {{2}}).error().find("axis 2 is out of range [-2, 1]"),
            std::string::npos);
}

TEST(Unsqueeze, adds_axes_at_their_final_places) {
  EXPECT_EQ(Typed("Unsqueeze", {kN8, 3}, {{-1, 1}}).type(), "float[N:8,1,3,1]");
  EXPECT_EQ(Typed("Unsqueeze", {2}, {{-1, 0}}).type(), "float[1,2,1]");
  EXPECT_NE(Typed("Unsqueeze", {2}, {{0, 0}}).error().find("axis 0 is listed twice"),
            std::string::npos);
  check_op(
      {.claim = "[0,3]", .op = "Unsqueeze", .inputs = {random({2, 3}), constant_ints({0, 3})}});
  check_op({.claim = "batch",
            .op = "Unsqueeze",
            .inputs = {random({2, 3}), constant_ints({1})},
            .batch = true});
}

TEST(Identity, hands_value_and_gradient_through) {
  check_op({.claim = "batch", .op = "Identity", .inputs = {random({2, 3})}, .batch = true});
  graph::Graph g;
  auto* x = g.add_input("x", TensorType(DType::kFloat32, {2}));
  auto* node = g.add_node("", "Identity", {x}, {"y"});
  ops::infer_node(*node);
  auto* dy = g.add_input("dy", x->type);
  ops::OpBuilder builder(g);
  ops::GradientContext context(*node, builder, {dy}, {true});
  ops::OpRegistry::get().at(*node).gradient.rule(context);
  EXPECT_EQ(context.result()[0], dy);
}

TEST(Views, old_forms_have_their_attributes_as_inputs) {
  const auto normalized = [](const std::string& op, const std::string& attribute, int64_t opset) {
    graph::Graph g;
    auto* x = g.add_input("x", TensorType(DType::kFloat32, {1, 2, 3, 1}));
    auto* node = g.add_node("", op, {x}, {"y"});
    node->attributes[attribute] = std::vector<int64_t>{0, -1};
    if (op == "Reshape") node->attributes["consumed_inputs"] = std::vector<int64_t>{0, 0};
    ops::normalize_node(*node, opset);
    EXPECT_TRUE(node->attributes.empty());
    ops::infer_node(*node);
    return node->output(0)->type.str();
  };
  EXPECT_EQ(normalized("Reshape", "shape", 1), "float[1,6]");
  EXPECT_EQ(normalized("Squeeze", "axes", 11), "float[2,3]");
  EXPECT_EQ(normalized("Unsqueeze", "axes", 11), "float[1,1,2,3,1,1]");
}

}  // namespace
}  // namespace sardonyx::test
