#include "graph/graph.h"

#include <gtest/gtest.h>

#include <functional>

#include "graph/builder.h"
#include "graph/print.h"
#include "graph/support/error.h"
#include "graph/verify.h"

namespace sardonyx::graph {
namespace {

const TensorType kFloats(DType::kFloat32, {2});

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

std::string readers(const Value* value) {
  std::string out;
  for (const Use& use : value->uses()) {
    out += (out.empty() ? "" : " ") + use.node->op + ":" + std::to_string(use.index);
  }
  return out;
}

std::string order(const Graph& graph) {
  std::string out;
  for (const Node& node : graph.nodes()) out += (out.empty() ? "" : " ") + node.op;
  return out;
}

TEST(Graph, a_taken_or_empty_name_is_refused_and_nothing_changes) {
  Graph graph;
  graph.name = "net";
  graph.add_input("x", kFloats);
  EXPECT_EQ(message_of([&] { graph.add_input("x", kFloats); }),
            "the name 'x' stands for two values of graph 'net'");
  EXPECT_EQ(message_of([&] { graph.add_input("", kFloats); }),
            "a value of graph 'net' needs a name");
  EXPECT_THROW(graph.add_constant("x", Tensor::scalar(1.0F)), Error);
  EXPECT_THROW(graph.add_state("x", kFloats, StateRole::kParameter), Error);
  EXPECT_THROW(graph.add_node("", "Relu", {}, {"y", "x"}), Error);
  EXPECT_EQ(message_of([&] {
              graph.add_node("", "Split", {}, {"y", "y"});
            }),
            "the name 'y' stands for two outputs of a node Split");
  EXPECT_TRUE(graph.nodes().empty());
  EXPECT_EQ(graph.values().size(), 1U);
  EXPECT_EQ(graph.find("y"), nullptr);
}

TEST(Graph, rename_moves_the_name) {
  Graph graph;
  Value* x = graph.add_input("x", kFloats);
  graph.add_input("y", kFloats);
  graph.rename(x, "x");
  EXPECT_THROW(graph.rename(x, "y"), Error);
  graph.rename(x, "z");
  EXPECT_EQ(graph.find("x"), nullptr);
  EXPECT_EQ(graph.find("z"), x);
}

TEST(Graph, uses_follow_set_input_and_keep_their_order) {
  Graph graph;
  Value* x = graph.add_input("x", kFloats);
  Value* y = graph.add_input("y", kFloats);
  Node* a = graph.add_node("", "A", {x, x}, {"a"});
  Node* b = graph.add_node("", "B", {x}, {"b"});
  Node* c = graph.add_node("", "C", {x, nullptr}, {"c"});
  EXPECT_EQ(readers(x), "A:0 A:1 B:0 C:0");
  graph.set_input(a, 1, y);
  EXPECT_EQ(readers(x), "A:0 B:0 C:0");
  graph.set_input(b, 0, nullptr);
  graph.set_input(c, 3, x);  // grows the list
  EXPECT_EQ(readers(x), "A:0 C:0 C:3");
  EXPECT_EQ(c->num_inputs(), 4);
  EXPECT_EQ(c->input(2), nullptr);
  graph.set_input(c, 0, x);  // no change
  EXPECT_EQ(readers(x), "A:0 C:0 C:3");
  graph.drop_trailing_inputs(c, 1);
  EXPECT_EQ(readers(x), "A:0 C:0");
  EXPECT_EQ(c->num_inputs(), 1);
  graph.remove(a);
  EXPECT_EQ(readers(x), "C:0");
  EXPECT_EQ(readers(y), "");
  verify(graph);
}

TEST(Graph, dropping_many_uses_in_any_order_leaves_the_rest_in_order) {
  Graph graph;
  Value* x = graph.add_input("x", kFloats);
  Value* y = graph.add_input("y", kFloats);
  std::vector<Node*> nodes;
  for (int i = 0; i < 500; ++i) nodes.push_back(graph.add_node("", "N", {x}, {}));
  for (int i = 0; i < 500; ++i) {
    if (const int n = i * 7 % 500; n % 3 != 0) graph.set_input(nodes[n], 0, y);
  }
  std::vector<Use> expected;
  for (int i = 0; i < 500; i += 3) expected.push_back({nodes[i], 0});
  EXPECT_EQ(x->uses(), expected);
  graph.set_input(nodes[1], 0, x);  // an added use comes last
  expected.push_back({nodes[1], 0});
  EXPECT_EQ(x->uses(), expected);
  verify(graph);
}

TEST(Graph, replace_uses_covers_nodes_outputs_and_bindings) {
  Graph graph;
  Value* x = graph.add_input("x", kFloats);
  Value* w = graph.add_state("w", kFloats, StateRole::kParameter);
  Node* a = graph.add_node("", "A", {x, w}, {"a"});
  Node* b = graph.add_node("", "B", {a->output(0)}, {"b"});
  Node* c = graph.add_node("", "C", {x, a->output(0)}, {"c"});
  graph.add_output(a->output(0));
  graph.add_output(x);
  graph.add_output(a->output(0));
  graph.bind(w, a->output(0));
  graph.replace_uses(a->output(0), x);
  EXPECT_EQ(b->input(0), x);
  EXPECT_EQ(c->input(1), x);
  EXPECT_EQ(readers(x), "A:0 C:0 B:0 C:1");
  EXPECT_EQ(graph.outputs(), (std::vector<Value*>{x, x, x}));
  EXPECT_EQ(graph.bound(w), x);
  EXPECT_FALSE(graph.is_output(a->output(0)));
  graph.replace_uses(x, x);
  EXPECT_EQ(readers(x), "A:0 C:0 B:0 C:1");
  graph.remove(a);
  EXPECT_EQ(graph.find("a"), nullptr);
  verify(graph);
}

TEST(Graph, used_values_cannot_be_removed) {
  Graph graph;
  Value* x = graph.add_input("x", kFloats);
  Value* w = graph.add_state("w", kFloats, StateRole::kParameter);
  Node* a = graph.add_node("", "A", {x}, {"a"});
  Node* b = graph.add_node("", "B", {a->output(0)}, {"b"});
  EXPECT_THROW(graph.remove(x), InternalError);
  EXPECT_THROW(graph.remove(b->output(0)), InternalError);
  graph.add_output(b->output(0));
  EXPECT_THROW(graph.drop_output_value(b, 0), InternalError);
  graph.clear_outputs();
  graph.bind(w, b->output(0));
  EXPECT_THROW(graph.drop_output_value(b, 0), InternalError);
  EXPECT_THROW(graph.remove(w), InternalError);
  graph.unbind(w);
  graph.remove(w);
  graph.remove(b);
  graph.remove(a);
  graph.remove(x);
  EXPECT_TRUE(graph.values().empty());
  EXPECT_TRUE(graph.inputs().empty());
}

TEST(Graph, output_slots_can_be_added_and_dropped) {
  Graph graph;
  Node* node = graph.add_node("", "BatchNormalization", {}, {"y", "", "var"});
  EXPECT_EQ(node->output(1), nullptr);
  EXPECT_EQ(node->output(7), nullptr);
  Value* mean = graph.add_output_value(node, 1, "mean");
  Value* saved = graph.add_output_value(node, 4, "saved");
  EXPECT_EQ(node->num_outputs(), 5);
  EXPECT_EQ(mean->slot, 1);
  EXPECT_EQ(saved->producer, node);
  EXPECT_THROW(graph.add_output_value(node, 4, "again"), InternalError);
  graph.drop_output_value(node, 1);
  EXPECT_EQ(node->output(1), nullptr);
  EXPECT_EQ(graph.find("mean"), nullptr);
  EXPECT_THROW(graph.drop_output_value(node, 1), InternalError);
  verify(graph);
}

TEST(Graph, set_output_and_clear_outputs_keep_is_output_right) {
  Graph graph;
  Value* x = graph.add_input("x", kFloats);
  Value* y = graph.add_input("y", kFloats);
  graph.add_output(x);
  graph.add_output(x);
  graph.set_output(0, y);
  EXPECT_TRUE(graph.is_output(x));
  EXPECT_TRUE(graph.is_output(y));
  graph.set_output(1, y);
  EXPECT_FALSE(graph.is_output(x));
  graph.clear_outputs();
  EXPECT_FALSE(graph.is_output(y));
  EXPECT_THROW(graph.set_output(0, x), InternalError);
}

TEST(Graph, set_inputs_reorders_and_drops_unused_ones) {
  Graph graph;
  Value* x = graph.add_input("x", kFloats);
  Value* y = graph.add_input("y", kFloats);
  Value* z = graph.add_input("z", kFloats);
  graph.add_node("", "A", {x, z}, {"a"});
  EXPECT_THROW(graph.set_inputs({y, z}), InternalError);  // x is read
  EXPECT_THROW(graph.set_inputs({x, x, z}), InternalError);
  EXPECT_THROW(graph.set_inputs({x, z, graph.find("a")}), InternalError);
  graph.set_inputs({z, x});
  EXPECT_EQ(graph.inputs(), (std::vector<Value*>{z, x}));
  EXPECT_EQ(graph.find("y"), nullptr);
  verify(graph);
}

TEST(Graph, constants_states_and_inputs_change_into_one_another) {
  Graph graph;
  Value* w = graph.add_constant("w", Tensor::of<float>({2}, {1, 2}));
  graph.add_node("", "A", {w}, {"a"});
  graph.make_state(w, StateRole::kParameter);
  EXPECT_EQ(graph.states(), std::vector<Value*>{w});
  EXPECT_TRUE(graph.constants().empty());
  EXPECT_EQ(w->data.as_double(1), 2.0);
  EXPECT_EQ(readers(w), "A:0");
  EXPECT_THROW(graph.make_state(w, StateRole::kParameter), InternalError);
  graph.make_constant(w);
  EXPECT_EQ(w->role, StateRole::kNone);
  EXPECT_EQ(graph.constants(), std::vector<Value*>{w});
  Value* m = graph.add_state("m", kFloats, StateRole::kOptimizer);
  graph.make_constant(m);
  EXPECT_EQ(m->data.to_doubles(), (std::vector<double>{0, 0}));
  Value* x = graph.add_input("x", kFloats);
  graph.make_constant(x, Tensor::of<float>({1}, {5}));
  EXPECT_TRUE(graph.inputs().empty());
  EXPECT_EQ(x->type.str(), "float[1]");
  verify(graph);
}

TEST(Graph, bindings_keep_their_order) {
  Graph graph;
  Value* x = graph.add_input("x", kFloats);
  Value* v = graph.add_state("v", kFloats, StateRole::kStatistic);
  Value* w = graph.add_state("w", kFloats, StateRole::kParameter);
  EXPECT_EQ(graph.bound(v), nullptr);
  graph.bind(w, x);
  graph.bind(v, x);
  EXPECT_THROW(graph.bind(w, x), InternalError);
  EXPECT_THROW(graph.bind(x, x), InternalError);
  EXPECT_EQ(graph.bindings()[0].state, w);
  graph.unbind(w);
  EXPECT_THROW(graph.unbind(w), InternalError);
  graph.bind(w, v);
  EXPECT_EQ(graph.bindings()[0].state, v);
  EXPECT_EQ(graph.bindings()[1].next, v);
}

TEST(Graph, nodes_are_inserted_and_moved) {
  Graph graph;
  Node* a = graph.add_node("", "A", {}, {"a"});
  Node* c = graph.add_node("", "C", {}, {"c"});
  graph.add_node("", "B", {}, {"b"}, c);
  EXPECT_EQ(order(graph), "A B C");
  graph.move_before(a, nullptr);
  EXPECT_EQ(order(graph), "B C A");
  graph.move_before(a, c);
  EXPECT_EQ(order(graph), "B A C");
  graph.move_before(a, a);
  graph.move_before(a, c);
  EXPECT_EQ(order(graph), "B A C");
}

TEST(GraphSort, leaves_a_sorted_graph_as_it_is) {
  Graph graph;
  Value* x = graph.add_input("x", kFloats);
  Builder b(graph);
  Value* left = b.op("A", {x});
  Value* right = b.op("B", {x});
  b.op("C", {right});
  b.op("D", {left, right});
  graph.sort();
  EXPECT_EQ(order(graph), "A B C D");
}

TEST(GraphSort, moves_as_few_nodes_as_the_order_asks_for) {
  Graph graph;
  Value* x = graph.add_input("x", kFloats);
  Node* a = graph.add_node("", "A", {x}, {"a"});
  Node* b = graph.add_node("", "B", {a->output(0), a->output(0)}, {"b"});
  graph.add_node("", "C", {x}, {"c"});
  graph.add_node("", "D", {b->output(0)}, {"d"});
  graph.move_before(a, nullptr);  // B C D A
  graph.sort();
  EXPECT_EQ(order(graph), "C A B D");
  verify(graph);
}

TEST(GraphSort, a_cycle_is_named_node_by_node) {
  Graph graph;
  graph.name = "net";
  Value* x = graph.add_input("x", kFloats);
  Node* a = graph.add_node("", "A", {x, x}, {"a"});
  Node* b = graph.add_node("", "B", {a->output(0)}, {"b"});
  b->name = "middle";
  Node* c = graph.add_node("", "C", {b->output(0)}, {"c"});
  graph.add_node("", "D", {c->output(0)}, {"d"});  // waits too, but is no part of the cycle
  graph.set_input(a, 1, c->output(0));
  EXPECT_EQ(message_of([&] { graph.sort(); }),
            "graph 'net' has a cycle; each of these nodes reads the one before it, the first reads "
            "the last:\n  middle (B)\n  C -> c\n  A -> a");
}

TEST(GraphSort, a_node_that_reads_itself_is_a_cycle) {
  Graph graph;
  Node* a = graph.add_node("", "A", {}, {"a"});
  graph.set_input(a, 0, a->output(0));
  EXPECT_NE(message_of([&] { graph.sort(); }).find("\n  A -> a"), std::string::npos);
  graph.remove(a);
  EXPECT_TRUE(graph.values().empty());
}

TEST(GraphClone, keeps_everything_and_shares_only_tensors) {
  Graph graph;
  graph.name = "net";
  graph.ir_version = 9;
  graph.opsets = {{"", 13}, {"sardonyx", 1}};
  graph.batch_symbol = "N";
  Value* x = graph.add_input("x", TensorType(DType::kFloat32, {Dim(60, "N"), 2}));
  Value* k = graph.add_constant("k", Tensor::of<float>({2}, {1, 2}));
  Value* w = graph.add_state("w", kFloats, StateRole::kParameter, Tensor::of<float>({2}, {3, 4}));
  k->origin = {Origin::Kind::kInitializer, "call1", 3, 0, "kernel", "kernel@conv:1"};
  Node* a = graph.add_node("my.domain", "A", {x, nullptr, k, w}, {"", "a"});
  a->name = "first";
  a->forward_node = "conv";
  a->attributes["alpha"] = 0.5;
  a->origin = {Origin::Kind::kNodeOutput, "", 7, 0, "", ""};
  a->output(1)->type = kFloats;
  Node* b = graph.add_node("", "B", {x, a->output(1)}, {"b"});
  graph.set_input(b, 2, w);
  graph.set_input(a, 0, nullptr);
  graph.set_input(a, 0, x);  // x is now read by B before A
  graph.add_output(b->output(0));
  graph.add_output(x);
  graph.bind(w, b->output(0));

  const auto copy = graph.clone();
  verify(*copy);
  EXPECT_EQ(print(*copy), print(graph));
  EXPECT_EQ(readers(copy->find("x")), "B:0 A:0");
  EXPECT_EQ(copy->find("k")->origin, k->origin);
  EXPECT_EQ(copy->find("k")->data.bytes().data(), k->data.bytes().data());
  EXPECT_EQ(copy->find("w")->role, StateRole::kParameter);
  EXPECT_EQ(copy->bound(copy->find("w")), copy->find("b"));
  EXPECT_TRUE(copy->is_output(copy->find("x")));
  EXPECT_EQ(copy->batch_symbol, "N");
  const Node& copied = copy->nodes().front();
  EXPECT_EQ(copied.origin, a->origin);
  EXPECT_EQ(copied.forward_node, "conv");
  EXPECT_EQ(copied.graph(), copy.get());
  std::vector<std::string> names;
  std::vector<std::string> copied_names;
  for (const Value& value : graph.values()) names.push_back(value.name);
  for (const Value& value : copy->values()) copied_names.push_back(value.name);
  EXPECT_EQ(copied_names, names);

  copy->find("k")->data.mutable_data<float>()[0] = 9;
  copy->set_input(&copy->nodes().back(), 1, nullptr);
  copy->remove(&copy->nodes().front());
  EXPECT_EQ(k->data.as_double(0), 1.0);
  EXPECT_EQ(graph.nodes().size(), 2U);
  verify(graph);
}

}  // namespace
}  // namespace sardonyx::graph
