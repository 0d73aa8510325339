// The part of the step that each node belongs to.
#include "passes/phases.h"

#include <gtest/gtest.h>

#include <map>

#include "graph/parse.h"
#include "models/lenet.h"
#include "passes/pass_manager.h"
#include "passes/pipelines.h"

namespace sardonyx::passes {
namespace {

// First output of each node, its phase.
std::map<std::string, std::string_view> phases_by_output(const graph::Graph& graph) {
  const std::vector<Phase> found = phases(graph);
  EXPECT_EQ(found.size(), graph.nodes().size());
  std::map<std::string, std::string_view> names;
  size_t i = 0;
  for (const graph::Node& node : graph.nodes())
    names[node.output(0)->name] = phase_name(found[i++]);
  return names;
}

TEST(Phases, say_what_is_computed_again_and_what_gradient_rules_need_in_between) {
  const auto graph = graph::parse(R"(<ir_version: 8, opset_import: ["" : 13, "sardonyx" : 1]>
g (float[4,2] x, double[] lr, float[] one) => (float[4,2] y, double[] norm)
<state(parameter) float[2,2] w = {1, 2, 3, 4}>
{
  a = MatMul(x, w)
  y = Mul(a, a)
  [of "Mul -> y"] da.part = Mul(x, a)
  [of "Mul -> y"] da.part.1 = Mul(x, a)
  da = Sum(da.part, da.part.1)
  "x/again" = Relu(x)
  [of "MatMul -> a"] dw = sardonyx.GemmGradWeight("x/again", da)
  norm = sardonyx.SquaredNorm(dw)
  "w'" = sardonyx.SGD<dampening = 0.0, momentum = 0.0, nesterov = 0, weight_decay = 0.0>(w, dw, lr, one)
  w := "w'"
})");
  const std::map<std::string, std::string_view> expected = {
      {"a", "forward"},          {"y", "forward"},   {"da.part", "backward"},
      {"da.part.1", "backward"}, {"da", "backward"}, {"x/again", "again"},
      {"dw", "backward"},        {"norm", "update"}, {"w'", "update"}};
  EXPECT_EQ(phases_by_output(*graph), expected);
}

TEST(Phases, sums_over_replicas_are_buckets_and_what_takes_them_apart) {
  auto graph = models::lenet({});
  for (graph::Value* constant : graph->constants()) {
    constant->origin = {graph::Origin::Kind::kInitializer, "", -1, -1, constant->name, ""};
  }
  const NullTarget target(2);
  PassContext context;
  context.target = &target;
  context.options.batch = 32;
  context.options.reduce.replicas = 2;
  context.options.optimizer.clip_value = 1;
  run_pipeline(*graph, context, training_pipeline());
  const std::vector<Phase> found = phases(*graph);
  std::map<std::string, std::map<std::string_view, int>> by_op;
  size_t i = 0;
  for (const graph::Node& node : graph->nodes()) ++by_op[node.op][phase_name(found[i++])];
  using Counts = std::map<std::string_view, int>;
  EXPECT_EQ(by_op["Conv"], (Counts{{"forward", 2}}));
  EXPECT_EQ(by_op["CrossEntropyLoss"], (Counts{{"forward", 1}}));
  EXPECT_EQ(by_op["CrossEntropyGrad"], (Counts{{"backward", 1}}));
  EXPECT_EQ(by_op["Bucket"], (Counts{{"sum", 1}}));
  EXPECT_EQ(by_op["AllReduce"], (Counts{{"sum", 1}}));
  EXPECT_EQ(by_op["Await"], (Counts{{"sum", 1}}));
  EXPECT_EQ(by_op["BucketMember"], (Counts{{"sum", 11}}));
  EXPECT_EQ(by_op["SGD"], (Counts{{"update", 8}}));
}

}  // namespace
}  // namespace sardonyx::passes
