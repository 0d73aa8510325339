// Transpose: permutations, large tiles, lanes, gradient by the inverse, batch role.
#include <gtest/gtest.h>

#include "ops/core/infer.h"
#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

using graph::Dim;
using ops::BatchRole;

OpCase transpose(std::string claim, OpInput x, std::vector<int64_t> perm) {
  return {.claim = std::move(claim),
          .op = "Transpose",
          .inputs = {std::move(x)},
          .attributes = {{"perm", std::move(perm)}}};
}

TEST(Transpose, reverses_the_axes_by_default) {
  check_op({.claim = "[2,3]",
            .op = "Transpose",
            .inputs = {given(doubles({2, 3}, {1, 2, 3, 4, 5, 6}))},
            .expected = {doubles({3, 2}, {1, 4, 2, 5, 3, 6})}});
  EXPECT_EQ(inferred_type({.op = "Transpose", .inputs = {random({2, 3, 4})}}), "float[4,3,2]");
}

TEST(Transpose, permutes_by_perm_and_back_in_the_gradient) {
  OpCase cycle = transpose("a cycle of three, whose inverse is another one",
                           given(doubles({1, 2, 3}, {1, 2, 3, 4, 5, 6})), {2, 0, 1});
  cycle.expected = {doubles({3, 1, 2}, {1, 4, 2, 5, 3, 6})};
  cycle.dy = {doubles({3, 1, 2}, {10, 40, 20, 50, 30, 60})};
  cycle.expected_gradients = {doubles({1, 2, 3}, {10, 20, 30, 40, 50, 60})};
  cycle.must_run = {"transpose.ref", "transpose.tiled"};
  check_op(cycle);
  check_op(transpose("NHWC to NCHW", random({2, 3, 4, 5}), {0, 3, 1, 2}));
  check_op(transpose("five axes", random({2, 1, 3, 2, 2}), {3, 1, 4, 0, 2}));
  check_op(transpose("rank 0", random({}), {}));
  OpCase empty = transpose("an empty axis", random({2, 0, 3}), {2, 1, 0});
  empty.zero_gradients = {0};
  check_op(empty);
}

TEST(Transpose, moves_whole_tiles_and_short_ones_on_several_threads) {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{37, 53}, {160, 130}, {4, 300}, {300, 3}}) {
    OpCase c = transpose("matrix", random(shape), {1, 0});
    c.differentiate.emplace();
    check_op(c);
  }
  OpCase c = transpose("channels last", random({3, 20, 21, 19}), {0, 3, 1, 2});
  c.differentiate.emplace();
  check_op(c);
}

TEST(Transpose, works_on_elements_of_every_size) {
  for (DType dtype : {DType::kBool, DType::kUint8, DType::kFloat16, DType::kInt32, DType::kInt64}) {
    const Tensor x = random_tensor(dtype, {20, 18}, 0, 1);
    OpCase c = transpose(std::string(graph::dtype_name(dtype)), exactly(given(x)), {1, 0});
    c.differentiate.emplace();
    check_op(c);
    EXPECT_EQ(reference(c)[0].dtype(), dtype);
  }
}

TEST(Transpose, runs_per_block_and_in_lanes_when_axis_0_stays) {
  OpCase c = transpose("batch", random({3, 2, 4, 2}), {0, 2, 3, 1});
  c.batch = true;
  c.must_run = {"transpose.lanes"};
  check_op(c);
  c = transpose("the batch moves", random({3, 2, 4}), {1, 0, 2});
  c.batch = true;
  check_op(c);
}

TEST(Transpose, moves_symbols_with_their_axes) {
  graph::Graph g;
  g.batch_symbol = "N";
  auto* x = g.add_input("x", graph::TensorType(DType::kFloat32, {Dim(8, "N"), Dim::named("T"), 4}));
  auto* node = g.add_node("", "Transpose", {x}, {"y"});
  const auto typed = [&](std::vector<int64_t> perm) {
    node->attributes["perm"] = std::move(perm);
    ops::infer_node(*node);
    return node->output(0)->type.str();
  };
  const auto role = [&] { return ops::OpRegistry::get().at(*node).batch(*node, 0); };
  EXPECT_EQ(typed({0, 2, 1}), "float[N:8,4,T]");
  EXPECT_EQ(role(), BatchRole::kRows);
  EXPECT_EQ(typed({1, 0, 2}), "float[T,N:8,4]");
  EXPECT_EQ(role(), BatchRole::kCouples);
  x->type = graph::TensorType::unranked(DType::kFloat32);
  EXPECT_EQ(typed({1, 0, 2}), "float[?,?,?]");
}

TEST(Transpose, c1_rejects_what_is_no_permutation) {
  EXPECT_EQ(infer_error(transpose("tr", random({1, 4}), {0, 0})),
            "C1: perm [0,0] is no permutation of the 2 axes of float[1,4]\n"
            "  while inferring shapes of node tr (Transpose)");
  EXPECT_NE(infer_error(transpose("tr", random({1, 4}), {0})).find("C1"), std::string::npos);
  EXPECT_NE(infer_error(transpose("tr", random({1, 4}), {1, 2})).find("C1"), std::string::npos);
  EXPECT_NE(infer_error(transpose("tr", random({1, 4}), {-1, 0})).find("C1"), std::string::npos);
}

}  // namespace
}  // namespace sardonyx::test
