#include "passes/node_facts.h"

#include <gtest/gtest.h>

#include "ops/core/op_builder.h"

namespace sardonyx::passes {
namespace {

using graph::Graph;
using graph::Value;

Value* relu(Graph& graph, Value* x, const char* name, graph::Node* before = nullptr) {
  return graph.add_node("", "Relu", {x}, {name}, before)->output(0);
}

TEST(NodeOrder, answers_as_the_walk_does_whatever_was_put_between) {
  Graph graph;
  Value* x = graph.add_input("x", graph::TensorType(graph::DType::kFloat32, graph::to_dims({4})));
  Value* a = relu(graph, x, "a");
  Value* b = relu(graph, a, "b");
  Value* c = relu(graph, b, "c");
  NodeOrder order(graph);
  for (const std::vector<const Value*>& values : std::vector<std::vector<const Value*>>{
           {x}, {a}, {b, a}, {nullptr, b}, {a, c}, {}, {b, x, a}}) {
    EXPECT_EQ(order.behind(values), node_behind(graph, values));
    graph::Node* put = relu(graph, x, "put", order.behind(values))->producer;
    order.put(put, values);
    EXPECT_EQ(order.behind(values), put);
    EXPECT_EQ(order.behind(values), node_behind(graph, values));
    graph.rename(put->output(0), "put" + std::to_string(graph.nodes().size()));
  }
  EXPECT_EQ(graph.nodes().size(), 10u);
}

}  // namespace
}  // namespace sardonyx::passes
