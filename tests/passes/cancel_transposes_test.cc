// How long cancel_transposes takes where Transposes are far apart; what it makes of them is in
// tests/passes/cancel_transposes.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "graph/builder.h"
#include "passes/pass_manager.h"

namespace sardonyx::passes {
namespace {

using graph::Value;

constexpr int kRelus = 10000;  // of a branch
// Many times what it takes, even under a sanitizer; a walk through the graph at each step takes
// minutes.
constexpr std::chrono::seconds kLimit(20);

Value* transposed(graph::Builder& b, Value* x) {
  return b.op("Transpose", {x}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
}

Value* transposed_branch(graph::Builder& b, Value* x) {
  Value* last = transposed(b, x);
  for (int i = 0; i < kRelus; ++i) last = b.op("Relu", {last});
  return last;
}

TEST(CancelTransposes, twenty_thousand_nodes_of_two_branches_are_passed_in_seconds) {
  graph::Graph graph;
  graph.opsets[""] = 17;
  graph::Builder b(graph);
  const auto input = [&](const char* name) {
    return graph.add_input(name, graph::TensorType(graph::DType::kFloat32, {2, 3, 4}));
  };
  Value* left = transposed_branch(b, input("x"));
  Value* right = transposed_branch(b, input("z"));
  graph.add_output(transposed(b, b.op("Add", {left, right})));
  const NullTarget target;
  PassContext context;
  context.target = &target;
  run_pipeline(graph, context, {{"infer_shapes", ""}});
  const auto start = std::chrono::steady_clock::now();
  run_pipeline(graph, context, {{"cancel_transposes", ""}});
  EXPECT_LT(std::chrono::steady_clock::now() - start, kLimit);
  EXPECT_EQ(std::ranges::count(graph.nodes(), "Relu", &graph::Node::op), 2 * kRelus);
  EXPECT_EQ(std::ranges::count(graph.nodes(), "Transpose", &graph::Node::op), 0);
}

}  // namespace
}  // namespace sardonyx::passes
