#include "graph/builder.h"

#include <gtest/gtest.h>

#include "graph/print.h"
#include "graph/verify.h"

namespace sardonyx::graph {
namespace {

TEST(Builder, names_outputs_after_the_wish_or_the_operator) {
  Graph graph;
  Builder b(graph);
  Value* x = graph.add_input("x", TensorType(DType::kFloat32, {2}));
  EXPECT_EQ(b.op("Relu", {x})->name, "Relu");
  EXPECT_EQ(b.op("Relu", {x})->name, "Relu.1");
  EXPECT_EQ(b.op("Relu", {x}, {}, "x")->name, "x.1");
  EXPECT_EQ(b.constant("k", Tensor::scalar(2.0F))->name, "k");
  EXPECT_EQ(b.constant("k", Tensor::scalar(2.0F))->name, "k.1");
}

TEST(Builder, two_equal_wishes_of_one_node_become_two_names) {
  Graph graph;
  Builder b(graph);
  Node* node = b.node("sardonyx", "Split", {}, {"part", "", "part"}, {{"axis", int64_t{1}}});
  EXPECT_EQ(print(*node), "part, \"\", part.1 = sardonyx.Split<axis = 1>()");
}

TEST(Builder, inserts_before_the_given_node_in_order) {
  Graph graph;
  Value* x = graph.add_input("x", {});
  Node* last = graph.add_node("", "Last", {x}, {"y"});
  Builder b(graph, last);
  Value* one = b.op("One", {x});
  graph.set_input(last, 0, b.op("Two", {one}));
  std::string order;
  for (const Node& node : graph.nodes()) order += node.op + " ";
  EXPECT_EQ(order, "One Two Last ");
  verify(graph);
}

}  // namespace
}  // namespace sardonyx::graph
