// What a hostile file says to passes and operators behind their back. (What rooms make of old
// forms: tests/ops.)
#include <gtest/gtest.h>

#include "graph/parse.h"
#include "graph/support/error.h"
#include "passes/pass_manager.h"

namespace sardonyx::passes {
namespace {

using graph::DType;
using graph::Graph;
using graph::Node;

const Pipeline kReading = {{"inline_functions", ""}, {"canonicalize", ""}};
const Pipeline kFolding = {{"infer_shapes", ""}, {"fold_constants", ""}};

TEST(Canonicalize, a_node_without_outputs_goes) {
  const auto g = graph::parse(R"(<ir_version: 8, opset_import: ["" : 13]>
g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) })");
  g->add_node("", "Identity", {g->find("w")}, {});
  g->add_node("", "PRelu", {g->find("w"), g->find("w")}, {""});
  g->add_node("acme", "Print", {g->find("x")}, {});
  PassContext context;
  run_pipeline(*g, context, kReading);
  ASSERT_EQ(g->nodes().size(), 1u);
  EXPECT_EQ(g->nodes().front().op, "Add");
}

TEST(Canonicalize, what_another_spelling_has_more_does_not_count) {
  const auto g = graph::parse(R"(<ir_version: 8, opset_import: ["" : 20, "com.microsoft" : 1]>
g (float[2,3] x) => (float[2,3] y, float[2,3] sum, float[2,3] h)
<float[3] b = {0.5, -1, 2}, float[3] s = {1, 2, -1}>
{
  n, "", "", sum = com.microsoft.SkipLayerNormalization(x, x, s, b, b)
  r = com.microsoft.SkipSimplifiedLayerNormalization(n, x, s, b)
  y = com.microsoft.BiasGelu(r, b)
  h = com.microsoft.FastGelu(y, b)
})");
  PassContext context;
  run_pipeline(*g, context, {{"canonicalize", ""}, {"infer_shapes", ""}});
  require_supported(context, g->outputs());
  EXPECT_EQ(g->find("sum")->producer->op, "Add");
  EXPECT_EQ(g->find("h")->type.str(), "float[2,3]");
}

TEST(Canonicalize, without_it_a_node_without_outputs_is_not_folded) {
  const auto g = graph::parse(R"(<ir_version: 8, opset_import: ["" : 13]>
g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) })");
  for (const char* op : {"Identity", "Neg", "Floor"}) g->add_node("", op, {g->find("w")}, {});
  PassContext context;
  run_pipeline(*g, context, kFolding);
  EXPECT_EQ(g->nodes().size(), 4u);
}

TEST(Canonicalize, a_file_can_not_say_the_opset_of_a_node) {
  const auto g = graph::parse(R"(<ir_version: 8, opset_import: ["" : 13]>
g (float[2,3,4] x) => (float[2,3,4] y) { y = Softmax(x) })");
  Node& node = g->nodes().front();
  node.attributes["sardonyx.opset"] = int64_t{1};
  PassContext context;
  run_pipeline(*g, context, kReading);
  EXPECT_TRUE(node.attributes.empty());  // not flattened, as in opset 1
}

TEST(Canonicalize, operators_of_ours_are_refused_where_something_needs_them) {
  const char* text = R"(<ir_version: 8, opset_import: ["" : 13, "sardonyx" : 1]>
g (float[2] x) => (float[2] y) {
  z = sardonyx.ReluGrad(x, x)
  y = Add(x, x)
})";
  const auto spare = graph::parse(text);
  PassContext context;
  run_pipeline(*spare, context, kReading);
  EXPECT_EQ(context.unsupported.size(), 1u);
  require_supported(context, spare->outputs());
  try {
    require_supported(context, {spare->find("z")});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("an operator of Sardonyx itself, which a model can't"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace sardonyx::passes
