// Expand and Tile: shapes, values, gradients, batch roles, refusals.
#include <gtest/gtest.h>

#include "ops/core/infer.h"
#include "ops/core/normalize.h"
#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

using graph::Dim;
using ops::BatchRole;
using ops::TensorType;

OpCase repeated(std::string op, std::string claim, OpInput x, std::vector<int64_t> counts) {
  OpCase c;
  c.claim = std::move(claim);
  c.op = std::move(op);
  c.inputs = {std::move(x), constant_ints(std::move(counts))};
  return c;
}

std::string type_of(const std::string& op, std::vector<Dim> dims, std::vector<int64_t> counts,
                    BatchRole* role = nullptr) {
  graph::Graph g;
  g.batch_symbol = "N";
  auto* x = g.add_input("x", TensorType(DType::kFloat32, std::move(dims)));
  const int64_t count = std::ssize(counts);
  auto* node = g.add_node("", op, {x, g.add_constant("s", ints({count}, counts))}, {"y"});
  ops::infer_node(*node);
  if (role != nullptr) *role = ops::OpRegistry::get().at(*node).batch(*node, 0);
  return node->output(0)->type.str();
}

TEST(Expand, repeats_axes_of_size_one) {
  OpCase c = repeated("Expand", "[3,1] to [2,1,4]", given(doubles({3, 1}, {1, 2, 3})), {2, 1, 4});
  c.expected = {
      doubles({2, 3, 4}, {1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3})};
  c.must_run = {"expand.ref", "expand.strided"};
  check_op(c);
  check_op(repeated("Expand", "nothing grows", random({2, 3}), {3}));
  check_op(repeated("Expand", "shorter than x", random({2, 1, 3}), {4, 1}));
  check_op(repeated("Expand", "rank 0", random({}), {2, 2}));
  OpCase empty = repeated("Expand", "to an empty axis", random({2, 1}), {2, 0});
  empty.zero_gradients = {0};
  check_op(empty);
}

TEST(Expand, works_on_integers_and_booleans) {
  OpCase c = repeated("Expand", "int", given(ints({2, 1}, {5, 6})), {2, 2});
  c.expected = {ints({2, 2}, {5, 5, 6, 6})};
  check_op(c);
  c = repeated("Expand", "bool", given(bools({1}, {true})), {3});
  c.expected = {bools({3}, {true, true, true})};
  check_op(c);
}

TEST(Expand, runs_per_block_and_in_lanes_when_the_batch_is_not_repeated) {
  OpCase c = repeated("Expand", "batch", random({3, 1, 2}), {1, 4, 1});
  c.batch = true;
  c.must_run = {"expand.lanes"};
  check_op(c);
}

TEST(Expand, keeps_the_batch_axis_and_makes_none) {
  BatchRole role;
  EXPECT_EQ(type_of("Expand", {Dim(8, "N"), 1}, {8, 4}, &role), "float[N:8,4]");
  EXPECT_EQ(role, BatchRole::kRows);
  EXPECT_EQ(type_of("Expand", {Dim::named("N"), 1}, {1, 4}), "float[N,4]");
  EXPECT_EQ(type_of("Expand", {Dim::named("N"), 1}, {8, 4}), "float[N:8,4]");
  EXPECT_EQ(type_of("Expand", {1, 4}, {8, 4}, &role), "float[8,4]");
  EXPECT_EQ(role, BatchRole::kCouples);
  EXPECT_EQ(type_of("Expand", {Dim(8, "N")}, {5, 8}, &role), "float[5,N:8]");
  EXPECT_EQ(role, BatchRole::kCouples);
}

TEST(Expand, c1_c2_reject_negative_and_unequal_sizes) {
  EXPECT_NE(infer_error(repeated("Expand", "e", random({2}), {-1})).find("C1: shape[0] is -1"),
            std::string::npos);
  EXPECT_NE(infer_error(repeated("Expand", "e", random({2, 3}), {2, 4}))
                .find("C2: an axis of float[2,3] has size 3, expected 1 or 4"),
            std::string::npos);
  try {
    type_of("Expand", {Dim(60, "N"), 1}, {8, 4});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what())
                  .find("the batch size 8 is baked into the shape, but the "
                        "batch here is 60"),
              std::string::npos);
  }
}

TEST(Tile, repeats_whole_axes) {
  OpCase c = repeated("Tile", "[2,2] by [2,2]", given(doubles({2, 2}, {1, 2, 3, 4})), {2, 2});
  c.expected = {doubles({4, 4}, {1, 2, 1, 2, 3, 4, 3, 4, 1, 2, 1, 2, 3, 4, 3, 4})};
  c.must_run = {"tile.ref", "tile.strided"};
  check_op(c);
  check_op(repeated("Tile", "one axis", random({2, 3, 2}), {1, 3, 1}));
  check_op(repeated("Tile", "nothing", random({2, 3}), {1, 1}));
  OpCase none = repeated("Tile", "no times", random({2, 3}), {0, 2});
  none.zero_gradients = {0};
  check_op(none);
  OpCase c64 = repeated("Tile", "int64", given(ints({2}, {1, 2})), {2});
  c64.expected = {ints({4}, {1, 2, 1, 2})};
  check_op(c64);
}

TEST(Tile, runs_per_block_and_in_lanes_when_the_batch_is_not_repeated) {
  OpCase c = repeated("Tile", "batch", random({3, 2, 2}), {1, 2, 3});
  c.batch = true;
  c.must_run = {"tile.lanes"};
  check_op(c);
}

TEST(Tile, keeps_the_batch_axis_unless_it_is_repeated) {
  BatchRole role;
  EXPECT_EQ(type_of("Tile", {Dim(8, "N"), 2}, {1, 4}, &role), "float[N:8,8]");
  EXPECT_EQ(role, BatchRole::kRows);
  EXPECT_EQ(type_of("Tile", {Dim(8, "N"), 2}, {2, 1}, &role), "float[16,2]");
  EXPECT_EQ(role, BatchRole::kCouples);
  EXPECT_EQ(type_of("Tile", {Dim::named("N"), 2}, {2, 1}), "float[?,2]");
}

TEST(Tile, c1_c3_reject_bad_counts_and_bombs) {
  EXPECT_NE(infer_error(repeated("Tile", "t", random({2}), {-1})).find("C1: repeats[0] is -1"),
            std::string::npos);
  EXPECT_NE(infer_error(repeated("Tile", "t", random({2}), {1, 2}))
                .find("C3: 2 repeats for the 1 axes of float[2]"),
            std::string::npos);
  EXPECT_NE(infer_error(repeated("Tile", "bomb", random({1, 4}), {int64_t{1} << 40, 1}))
                .find("would need 17592186044416 bytes"),
            std::string::npos);
  EXPECT_NE(infer_error(repeated("Tile", "t", random({4}), {int64_t{1} << 61}))
                .find("4 * 2305843009213693952 is beyond the largest size, 2^62"),
            std::string::npos);
}

TEST(Tile, refuses_opset_1) {
  graph::Graph g;
  auto* x = g.add_input("x", TensorType(DType::kFloat32, {2}));
  auto* node = g.add_node("", "Tile", {x, x, x}, {"y"});
  EXPECT_THROW(ops::normalize_node(*node, 1), Error);
}

}  // namespace
}  // namespace sardonyx::test
