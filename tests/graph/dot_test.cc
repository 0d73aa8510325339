#include "graph/dot.h"

#include <gtest/gtest.h>

#include "graph/parse.h"

namespace sardonyx::graph {
namespace {

TEST(Dot, shows_nodes_values_state_and_bindings) {
  const auto graph = parse(R"("the \"net\"" (float[2] x) => (float[2] y)
    <float[2] k = {1, 2}, state(parameter) float[2] w> {
      [add] y = Add(x, w)
      [dw of add] "w\\1" = sardonyx.Update(w, k)  # float[2]
      w := "w\\1"
    })");
  EXPECT_EQ(to_dot(*graph), R"(digraph "the \"net\"" {
  node [style=filled, fontname="sans-serif", fontsize=10];
  edge [fontname="sans-serif", fontsize=9];
  v0 [label="x\nfloat[2]", shape=ellipse, fillcolor="#cfe8ff"];
  v1 [label="k\nfloat[2]", shape=note, fillcolor="#eeeeee"];
  v2 [label="w\nfloat[2]\nparameter", shape=cylinder, fillcolor="#ffe08a"];
  n3 [label="Add\nadd", shape=box, fillcolor="#ffffff"];
  n4 [label="sardonyx.Update\ndw\nof add", shape=box, fillcolor="#f6c6d0"];
  v0 -> n3 [label=""];
  v2 -> n3 [label=""];
  v2 -> n4 [label=""];
  v1 -> n4 [label=""];
  out0 [label="y\nfloat[2]", shape=ellipse, fillcolor="#cdeccd"];
  n3 -> out0 [label="y\nfloat[2]"];
  n4 -> v2 [label="w\\1\nfloat[2]", style=dashed, constraint=false];
}
)");
}

TEST(Dot, names_are_escaped_and_the_file_stays_valid) {
  const auto graph = parse(R"(g (float[2] "a\x1b[31m\xe2\x80\xae\xff\n") => ()
    { ["\"];evil["] y = Relu("a\x1b[31m\xe2\x80\xae\xff\n") })");
  const std::string dot = to_dot(*graph);
  EXPECT_NE(dot.find(R"(label="a\\x1b[31m\\u202e\\xff\\n\nfloat[2]")"), std::string::npos) << dot;
  EXPECT_NE(dot.find(R"(label="Relu\n\"];evil[", shape=box)"), std::string::npos) << dot;
}

TEST(Dot, a_constant_that_is_only_bound_is_drawn) {
  const auto graph = parse("g () => () <float[1] k = {1}, state(counter) float[1] t> { t := k }");
  EXPECT_NE(to_dot(*graph).find("v0 -> v1 [label=\"\", style=dashed"), std::string::npos);
}

}  // namespace
}  // namespace sardonyx::graph
