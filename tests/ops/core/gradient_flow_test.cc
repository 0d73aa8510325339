#include "ops/core/gradient_flow.h"

#include <gtest/gtest.h>

#include "graph/parse.h"
#include "ops/core/infer.h"

namespace sardonyx::test {
namespace {

enum class Types : uint8_t { kKnown, kUnknown };

// Whether a gradient comes to each input of the node: "10" to the first of two.
std::string flows(const std::string& node, Types types = Types::kKnown) {
  const auto graph = graph::parse(
      "<ir_version: 8, opset_import: [\"\" : 17, \"acme\" : 1]>\n"
      "g (float[2,3] x, int64[2] i, float[3] w) => (y) { " +
      node + " }");
  graph::Node& parsed = graph->nodes().front();
  if (types == Types::kKnown) ops::infer_node(parsed);
  std::string result;
  for (int slot = 0; slot < parsed.num_inputs(); ++slot) {
    result += ops::gradient_flows(parsed, slot) ? '1' : '0';
  }
  return result;
}

TEST(GradientFlow, goes_from_floats_to_floats) {
  EXPECT_EQ(flows("y = Mul(x, w)"), "11");
  EXPECT_EQ(flows("y = Gather(x, i)"), "10");
  EXPECT_EQ(flows("y = Cast<to = 7>(x)"), "0");
  EXPECT_EQ(flows("y = Cast<to = 1>(i)"), "0");
  EXPECT_EQ(flows("y = Clip(x, \"\", w)", Types::kUnknown), "100");
}

TEST(GradientFlow, ends_where_it_is_zero_by_nature_whatever_is_known_of_types) {
  for (const Types types : {Types::kKnown, Types::kUnknown}) {
    EXPECT_EQ(flows("y = Floor(x)", types), "0");
    EXPECT_EQ(flows("y = Less(x, w)", types), "00");
    EXPECT_EQ(flows("y = Shape(x)", types), "0");
  }
}

TEST(GradientFlow, an_operator_that_has_none_is_no_end) {
  EXPECT_EQ(flows("y = Unique(x)", Types::kUnknown), "1");
  EXPECT_EQ(flows("y = acme.Scale(x, i, w)", Types::kUnknown), "101");
}

}  // namespace
}  // namespace sardonyx::test
