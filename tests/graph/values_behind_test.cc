#include "graph/values_behind.h"

#include <gtest/gtest.h>

#include "graph/parse.h"

namespace sardonyx::graph {
namespace {

TEST(ValuesBehind, each_value_stands_once_and_the_last_input_comes_first) {
  const auto graph = parse(R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[2] a, float[2] b) => (float[2] y, float[2] other) {
  s = Add(a, b)
  y = Mul(s, a)
  other = Relu(b)
})");
  std::vector<std::string> names;
  for (const Value* value : values_behind({graph->find("y"), nullptr}))
    names.push_back(value->name);
  EXPECT_EQ(names, (std::vector<std::string>{"y", "a", "s", "b"}));
}

}  // namespace
}  // namespace sardonyx::graph
