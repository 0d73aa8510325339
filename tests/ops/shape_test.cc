// Shape and Size: start and end, unknown axes, and that no bytes are read.
#include <gtest/gtest.h>

#include "ops/core/infer.h"
#include "tests/support/op_tester.h"

namespace sardonyx::test {
namespace {

using graph::Dim;

OpCase shape_of(graph::Attributes attributes) {
  return {.claim = "shape",
          .op = "Shape",
          .inputs = {random({4, 3, 2})},
          .attributes = std::move(attributes)};
}

void check_shape(graph::Attributes attributes, std::vector<int64_t> dims) {
  OpCase c = shape_of(std::move(attributes));
  const int64_t count = std::ssize(dims);
  c.expected = {ints({count}, dims)};
  check_op(c);
}

TEST(Shape, gives_the_axes_from_start_to_end) {
  check_shape({}, {4, 3, 2});
  check_shape({{"start", int64_t{1}}}, {3, 2});
  check_shape({{"end", int64_t{-1}}}, {4, 3});
  check_shape({{"start", int64_t{-2}}, {"end", int64_t{2}}}, {3});
  check_shape({{"start", int64_t{-9}}, {"end", int64_t{9}}}, {4, 3, 2});
  check_shape({{"start", int64_t{2}}, {"end", int64_t{1}}}, {});
}

TEST(Shape, of_a_scalar_is_empty) {
  check_op({.claim = "rank 0", .op = "Shape", .inputs = {random({})}, .expected = {ints({0}, {})}});
}

TEST(Shape, needs_no_bytes) {
  graph::Graph g;
  auto* x = g.add_input("x", graph::TensorType(DType::kFloat32, {Dim(60, "N"), 3}));
  auto* shape = g.add_node("", "Shape", {x}, {"s"});
  auto* size = g.add_node("", "Size", {x}, {"n"});
  for (auto* node : {shape, size}) ops::infer_node(*node);
  EXPECT_EQ(ops::evaluate(*shape, {Tensor()})[0].to_ints(), (std::vector<int64_t>{60, 3}));
  EXPECT_EQ(ops::evaluate(*size, {Tensor()})[0].to_ints(), (std::vector<int64_t>{180}));
  EXPECT_TRUE(ops::OpRegistry::get().at(*shape).reads_only_shapes);
}

TEST(Shape, has_a_known_length_before_the_sizes_are_known) {
  graph::Graph g;
  auto* x = g.add_input("x", graph::TensorType(DType::kFloat32, {Dim::named("N"), Dim()}));
  auto* node = g.add_node("", "Shape", {x}, {"s"});
  ops::infer_node(*node);
  EXPECT_EQ(node->output(0)->type.str(), "int64[2]");
  x->type = graph::TensorType::unranked(DType::kFloat32);
  ops::infer_node(*node);
  EXPECT_EQ(node->output(0)->type.str(), "int64[?]");
}

TEST(Size, counts_the_elements) {
  check_op(
      {.claim = "24", .op = "Size", .inputs = {random({4, 3, 2})}, .expected = {ints({}, {24})}});
  check_op({.claim = "0", .op = "Size", .inputs = {random({4, 0})}, .expected = {ints({}, {0})}});
}

}  // namespace
}  // namespace sardonyx::test
