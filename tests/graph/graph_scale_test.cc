// Large graphs stay near-linear: with quadratic steps each of these tests would take minutes, not a
// fraction of a second, so that the wide limits hold on a busy machine too.
#include <gtest/gtest.h>

#include <chrono>

#include "graph/builder.h"
#include "graph/graph.h"
#include "graph/parse.h"
#include "graph/print.h"
#include "graph/verify.h"

namespace sardonyx::graph {
namespace {

constexpr int kChain = 100000;
constexpr int kUses = 20000;
const TensorType kFloats(DType::kFloat32, {2});

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

std::unique_ptr<Graph> chain() {
  auto graph = std::make_unique<Graph>();
  Builder b(*graph);
  Value* value = graph->add_input("x", kFloats);
  for (int i = 0; i < kChain; ++i)
    value = b.op("Relu", {value});  // 100,000 equal wishes for a name
  graph->add_output(value);
  return graph;
}

TEST(GraphScale, a_long_chain_is_built_cloned_sorted_verified_and_printed_slow) {
  const Stopwatch watch;
  const auto graph = chain();
  EXPECT_EQ(graph->outputs()[0]->name, "Relu.99999");
  const auto copy = graph->clone();
  copy->move_before(&copy->nodes().front(), nullptr);
  copy->sort();
  verify(*copy);
  const std::string text = print(*copy);
  EXPECT_EQ(print(*parse(text)), text);
  EXPECT_EQ(copy->nodes().size(), size_t{kChain});
  EXPECT_LT(watch.seconds(), 60);
}

TEST(GraphScale, a_reversed_chain_is_sorted) {
  const Stopwatch watch;
  const auto graph = chain();
  for (Node* node = &graph->nodes().front(); node != &graph->nodes().back();) {
    Node* next = node->output(0)->uses().front().node;
    graph->move_before(next, &graph->nodes().front());
    if (next->output(0)->uses().empty()) break;
    node = next;
  }
  graph->sort();
  verify(*graph);
  EXPECT_LT(watch.seconds(), 60);
}

TEST(GraphScale, a_chain_is_removed_from_its_end) {
  const Stopwatch watch;
  const auto graph = chain();
  graph->clear_outputs();
  while (!graph->nodes().empty()) graph->remove(&graph->nodes().back());
  EXPECT_EQ(graph->values().size(), 1U);
  EXPECT_TRUE(graph->find("x")->uses().empty());
  EXPECT_LT(watch.seconds(), 60);
}

TEST(GraphScale, one_value_with_many_uses_loses_them_in_any_order_slow) {
  const Stopwatch watch;
  Graph graph;
  Value* x = graph.add_input("x", kFloats);
  Value* y = graph.add_input("y", kFloats);
  std::vector<Node*> nodes;
  for (int i = 0; i < kUses; ++i) nodes.push_back(graph.add_node("", "N", {x}, {}));
  for (Node* node : nodes) graph.set_input(node, 0, y);  // from the front
  for (auto at = nodes.rbegin(); at != nodes.rend(); ++at) graph.set_input(*at, 0, x);
  for (int i = 0; i < kUses; ++i) graph.set_input(nodes[i * 7919LL % kUses], 0, y);
  EXPECT_TRUE(x->uses().empty());
  EXPECT_EQ(y->uses().size(), size_t{kUses});
  graph.replace_uses(y, x);
  EXPECT_EQ(x->uses().size(), size_t{kUses});
  while (!x->uses().empty()) graph.set_input(x->uses().front().node, 0, y);  // looks each time
  for (Node* node : nodes) graph.remove(node);
  EXPECT_TRUE(y->uses().empty());
  EXPECT_LT(watch.seconds(), 60);
}

TEST(GraphScale, many_states_are_bound_and_replaced) {
  const Stopwatch watch;
  Graph graph;
  Value* x = graph.add_input("x", kFloats);
  for (int i = 0; i < kUses; ++i) {
    Value* state = graph.add_state("s" + std::to_string(i), kFloats, StateRole::kParameter);
    graph.bind(state, graph.add_node("", "N", {state, x}, {"n" + std::to_string(i)})->output(0));
  }
  verify(graph, [](const Node&) { return std::vector<std::pair<int, int>>{{0, 0}}; });
  EXPECT_EQ(graph.clone()->bindings().size(), size_t{kUses});
  EXPECT_LT(watch.seconds(), 60);
}

}  // namespace
}  // namespace sardonyx::graph
