#include "graph/verify.h"

#include <gtest/gtest.h>

#include "graph/parse.h"
#include "graph/support/error.h"

namespace sardonyx::graph {
namespace {

// The violations, one per line; "" for a valid graph.
std::string violations(const Graph& graph, const AliasQuery& aliases = {},
                       const AliasQuery& views = {}) {
  try {
    verify(graph, aliases, views);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

// Output 0 of "Update" overwrites its input 0.
std::vector<std::pair<int, int>> update_aliases(const Node& node) {
  if (node.op != "Update") return {};
  return {{0, 0}};
}

// Output 0 of "View" is its input 0.
std::vector<std::pair<int, int>> view_aliases(const Node& node) {
  if (node.op != "View") return {};
  return {{0, 0}};
}

std::string alias_violations(std::string_view text) {
  return violations(*parse(text), update_aliases, view_aliases);
}

std::unique_ptr<Graph> small() {
  return parse(R"(g (float[2] x) => (float[2] y) <state(parameter) float[2] w = {1, 2}> {
    a = Add(x, w)   # float[2]
    y = Relu(a)
    w := a
  })");
}

TEST(Verify, accepts_a_valid_graph) { EXPECT_EQ(violations(*small()), ""); }

TEST(Verify, accepts_an_empty_graph) { EXPECT_EQ(violations(Graph()), ""); }

TEST(Verify, finds_a_value_read_before_it_is_made) {
  const auto graph = small();
  graph->move_before(&graph->nodes().back(), &graph->nodes().front());
  EXPECT_EQ(violations(*graph),
            "graph 'g' is not valid:\n  node Relu -> y reads 'a' before node Add -> a makes it");
}

TEST(Verify, finds_a_node_that_reads_itself) {
  const auto graph = small();
  graph->set_input(&graph->nodes().front(), 0, graph->find("a"));
  EXPECT_EQ(violations(*graph),
            "graph 'g' is not valid:\n  node Add -> a reads 'a' before node Add -> a makes it");
}

TEST(Verify, finds_names_changed_behind_the_graphs_back) {
  const auto graph = small();
  graph->find("a")->name = "b";
  EXPECT_EQ(violations(*graph),
            "graph 'g' is not valid:\n"
            "  value 'b' is not what its name finds: names change through Graph::rename");
}

TEST(Verify, finds_results_whose_node_disagrees) {
  const auto graph = small();
  graph->find("a")->slot = 1;
  graph->find("y")->producer = nullptr;
  EXPECT_EQ(violations(*graph),
            "graph 'g' is not valid:\n"
            "  result 'a' is not output 1 of node Add -> a\n"
            "  result 'y' has no node in this graph\n"
            "  output 0 of node Relu -> y doesn't name it as its node");
}

TEST(Verify, finds_wrong_kinds_roles_and_data) {
  const auto graph = small();
  graph->find("x")->kind = ValueKind::kConstant;
  graph->find("a")->role = StateRole::kStatistic;
  graph->find("a")->data = Tensor::scalar(1.0F);
  graph->find("w")->type.dims[0] = 3;
  EXPECT_EQ(violations(*graph),
            "graph 'g' is not valid:\n"
            "  constant 'x' has no bytes\n"
            "  'w' has type float[3], its bytes float[2]\n"
            "  'a' has role statistic but is no state\n"
            "  'a' holds bytes but is neither constant nor state\n"
            "  graph input 'x' is no input\n"
            "  state 'w' has type float[3], it is bound to 'a' of type float[2]");
}

TEST(Verify, finds_values_of_another_graph) {
  const auto graph = small();
  const auto other = small();
  graph->add_output(other->find("y"));
  graph->unbind(graph->find("w"));
  graph->bind(graph->find("w"), other->find("a"));
  graph->set_input(&graph->nodes().front(), 0, other->find("x"));
  EXPECT_EQ(violations(*graph),
            "graph 'g' is not valid:\n"
            "  input 0 of node Add -> a is a value of another graph\n"
            "  a graph output is a value of another graph\n"
            "  a binding names a value of another graph");
  EXPECT_EQ(violations(*other),
            "graph 'g' is not valid:\n  'x' is used by a node that is not in this graph");
  graph->set_input(&graph->nodes().front(), 0, nullptr);  // before `other` goes
}

TEST(Verify, lists_twenty_violations_and_counts_the_rest) {
  Graph graph;
  for (int i = 0; i < 25; ++i) {
    graph.add_input("x" + std::to_string(i), {})->kind = ValueKind::kResult;
  }
  const std::string text = violations(graph);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 21);
  EXPECT_NE(text.find("\n  result 'x19' has no node in this graph\n  ... and 30 more"),
            std::string::npos)
      << text;
}

TEST(VerifyAliases, an_update_bound_to_its_state_is_fine) {
  EXPECT_EQ(alias_violations(R"(g (float[2] x) => ()
    <state(accumulator) float[2] acc> {
      acc.1 = Update(acc, x)    # float[2]
      acc.2 = Update(acc.1, x)  # float[2]
      acc := acc.2
    })"),
            "");
}

TEST(VerifyAliases, a_read_before_or_by_the_writing_node_is_fine) {
  EXPECT_EQ(alias_violations(R"(g (float[2] x) => (y) <state(parameter) float[2] w> {
      y = Relu(w)
      w.1 = Update(w, w)
      w := w.1
    })"),
            "");
}

TEST(VerifyAliases, a_later_read_of_the_old_value_is_refused) {
  EXPECT_EQ(alias_violations(R"(g (float[2] x) => (y) <state(parameter) float[2] w> {
      [update] w.1 = Update(w, x)
      [late] y = Relu(w)
      w := w.1
    })"),
            "graph 'g' is not valid:\n"
            "  node update (Update) overwrites 'w', which node late (Relu) reads later");
}

TEST(VerifyAliases, a_second_update_of_the_old_value_is_refused) {
  EXPECT_EQ(alias_violations(R"(g (float[2] x) => () <state(parameter) float[2] w> {
      w.1 = Update(w, x)
      w.2 = Update(w, x)
      w := w.2
    })"),
            "graph 'g' is not valid:\n"
            "  node Update -> w.1 overwrites 'w', which node Update -> w.2 reads later");
}

TEST(VerifyAliases, outputs_and_bindings_count_as_late_reads) {
  EXPECT_EQ(alias_violations(R"(g (float[2] x) => (float[2] w)
    <state(parameter) float[2] w, state(statistic) float[2] v> {
      w.1 = Update(w, x)  # float[2]
      v := w
      w := w.1
    })"),
            "graph 'g' is not valid:\n"
            "  node Update -> w.1 overwrites 'w', which is a graph output\n"
            "  node Update -> w.1 overwrites 'w', to which state 'v' is bound");
}

TEST(VerifyAliases, constants_and_unbound_states_must_not_change) {
  EXPECT_EQ(alias_violations(R"(g (float[2] x) => ()
    <state(parameter) float[2] w, float[2] k = {1, 2}> {
      w.1 = Update(w, x)
      k.1 = Update(k, x)
    })"),
            "graph 'g' is not valid:\n"
            "  node Update -> w.1 overwrites 'w', a state that is not bound: it would change "
            "without a binding\n"
            "  node Update -> k.1 overwrites 'k', a constant");
}

TEST(VerifyAliases, an_overwrite_keeps_type_and_layout) {
  EXPECT_EQ(alias_violations(R"(g (float[32] x) => () {
      a = Relu(x)       # float[32]
      b = Update(a, x)  # float[32]@n16
    })"),
            "graph 'g' is not valid:\n"
            "  node Update -> b overwrites 'a' of type float[32] with 'b' of type float[32]@n16");
}

TEST(VerifyAliases, a_view_read_before_the_write_is_fine) {
  EXPECT_EQ(alias_violations(R"(g (float[2] x) => (y) <state(parameter) float[2] w> {
      v = View(w)
      y = Relu(v)
      w.1 = Update(w, x)
      z = View(w.1)
      z.1 = Relu(z)
      w := w.1
    })"),
            "");
}

TEST(VerifyAliases, a_later_read_through_a_chain_of_views_is_refused) {
  EXPECT_EQ(alias_violations(R"(g (float[2] x) => (y) <state(parameter) float[2] w> {
      v = View(w)
      u = View(v)
      [update] w.1 = Update(w, x)
      [late] y = Relu(u)
      w := w.1
    })"),
            "graph 'g' is not valid:\n"
            "  node update (Update) overwrites 'w' and with it 'u', which node late (Relu) reads "
            "later");
}

TEST(VerifyAliases, a_view_made_after_the_write_is_a_late_read) {
  EXPECT_EQ(
      alias_violations(R"(g (float[2] x) => (y) <state(parameter) float[2] w> {
      w.1 = Update(w, x)
      [late] v = View(w)
      y = Relu(v)
      w := w.1
    })"),
      "graph 'g' is not valid:\n"
      "  node Update -> w.1 overwrites 'w', which node late (View) reads later\n"
      "  node Update -> w.1 overwrites 'w' and with it 'v', which node Relu -> y reads later");
}

TEST(VerifyAliases, a_write_through_a_view_overwrites_what_it_shows) {
  EXPECT_EQ(alias_violations(R"(g (float[2] x) => (y) <state(parameter) float[2] w> {
      v = View(w)
      other = View(w)
      v.1 = Update(v, x)
      y = Relu(w)
      z = Tanh(other)
      w := v.1
    })"),
            "graph 'g' is not valid:\n"
            "  node Update -> v.1 overwrites 'v' and with it 'w', which node Relu -> y reads "
            "later\n"
            "  node Update -> v.1 overwrites 'v' and with it 'other', which node Tanh -> z reads "
            "later");
}

TEST(VerifyAliases, a_write_through_a_view_needs_a_binding_and_no_constant) {
  EXPECT_EQ(alias_violations(R"(g (float[2] x) => ()
    <state(parameter) float[2] w, float[2] k = {1, 2}> {
      v = View(w)
      v.1 = Update(v, x)
      c = View(k)
      c.1 = Update(c, x)
    })"),
            "graph 'g' is not valid:\n"
            "  node Update -> v.1 overwrites 'v' and with it 'w', a state that is not bound: it "
            "would change without a binding\n"
            "  node Update -> c.1 overwrites 'c' and with it 'k', a constant");
}

TEST(VerifyAliases, a_view_that_is_an_output_or_bound_is_a_late_read) {
  EXPECT_EQ(alias_violations(R"(g (float[2] x) => (float[2] v)
    <state(parameter) float[2] w, state(statistic) float[2] s> {
      v = View(w)         # float[2]
      u = View(w)         # float[2]
      w.1 = Update(w, x)  # float[2]
      s := u
      w := w.1
    })"),
            "graph 'g' is not valid:\n"
            "  node Update -> w.1 overwrites 'w' and with it 'v', which is a graph output\n"
            "  node Update -> w.1 overwrites 'w' and with it 'u', to which state 's' is bound");
}

TEST(VerifyAliases, left_out_operands_are_no_aliases) {
  EXPECT_EQ(alias_violations(R"(g (float[2] x) => (y) {
      y = Update("", x)
      "" = Update(x, y)
      z = Relu(x)
    })"),
            "");
}

}  // namespace
}  // namespace sardonyx::graph
