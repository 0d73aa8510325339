// What is said about nodes: once for all that have it in common.
#include <gtest/gtest.h>

#include "graph/parse.h"
#include "passes/node_notices.h"
#include "passes/pass_manager.h"

namespace sardonyx::passes {
namespace {

std::vector<std::string> notices_of_types(const std::string& nodes) {
  const auto graph = graph::parse(R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[2,3] x) => (float[2,3] y) <float[3] s = {1, 1, 1}>
{)" + nodes + "}");
  const NullTarget target;
  PassContext context;
  context.target = &target;
  run_pipeline(*graph, context, {{"infer_shapes", ""}});
  return context.notices;
}

constexpr const char* kZero =
    "attribute 'epsilon' is 0: where all numbers that are normalised together are equal, 0 is "
    "divided by 0 and the result is not a number; unless that can't happen, write a number above 0 "
    "into the file";

TEST(NodeNotices, an_epsilon_of_zero_is_said_with_its_node) {
  EXPECT_EQ(notices_of_types("[ln] y = LayerNormalization<epsilon = 0.0>(x, s)"),
            std::vector<std::string>{std::string("node ln (LayerNormalization): ") + kZero});
  EXPECT_TRUE(notices_of_types("[ln] y = LayerNormalization<epsilon = 1e-12>(x, s)").empty());
}

TEST(NodeNotices, nodes_that_have_it_in_common_are_counted) {
  EXPECT_EQ(
      notices_of_types(R"(
  [a] u = LayerNormalization<epsilon = 0.0>(x, s)
  [b] v = LayerNormalization<epsilon = 0.0>(u, s)
  [c] w = LayerNormalization(v, s)
  [d] y = LayerNormalization<epsilon = 0.0>(w, s)
)"),
      std::vector<std::string>{std::string("node a (LayerNormalization) and 2 others: ") + kZero});
}

}  // namespace
}  // namespace sardonyx::passes
