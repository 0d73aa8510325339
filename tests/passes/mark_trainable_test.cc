// What mark_trainable tells the user beside the table.
#include <gtest/gtest.h>

#include "graph/parse.h"
#include "passes/pass_manager.h"

namespace sardonyx::passes {
namespace {

std::vector<std::string> notices_of(const std::string& constants) {
  const auto graph = graph::parse(R"(<ir_version: 8, opset_import: ["" : 13, "sardonyx" : 1]>
g (float[N,2] x) => (float[N,2] y) <)" +
                                  constants + R"(>
{
  a = MatMul(x, v)
  y = MatMul(a, w)
})");
  for (graph::Value* constant : graph->constants()) {
    constant->origin = {graph::Origin::Kind::kInitializer, "", -1, -1, constant->name, ""};
  }
  const NullTarget target;
  PassContext context;
  context.target = &target;
  run_pipeline(
      *graph, context,
      {{"bind_batch", ""}, {"infer_shapes", ""}, {"append_loss", ""}, {"mark_trainable", ""}});
  return context.notices;
}

TEST(MarkTrainable, equal_weights_are_trained_apart_with_a_notice) {
  EXPECT_EQ(
      notices_of("float[2,2] v = {1, 2, 3, 4}, float[2,2] w = {1, 2, 3, 4}"),
      (std::vector<std::string>{"equal weights under two names are trained apart; 'v' and 'w'"}));
}

TEST(MarkTrainable, different_or_uniform_weights_give_no_notice) {
  EXPECT_TRUE(notices_of("float[2,2] v = {1, 2, 3, 4}, float[2,2] w = {1, 2, 3, 5}").empty());
  EXPECT_TRUE(notices_of("float[2,2] v = {1, 1, 1, 1}, float[2,2] w = {1, 1, 1, 1}").empty());
}

}  // namespace
}  // namespace sardonyx::passes
