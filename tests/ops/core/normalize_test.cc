// What every node of a file goes through before its room reads it.
#include "ops/core/normalize.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "graph/support/error.h"
#include "ops/core/flags.h"
#include "ops/core/infer.h"

namespace sardonyx::test {
namespace {

using graph::DType;
using graph::Graph;
using graph::Tensor;
using ops::Node;
using ops::OpDef;
using ops::OpRegistry;
using ops::Presence;
using ops::Value;
using Ints = std::vector<int64_t>;

// A node of `op` whose required inputs are floats [2,3,4].
Node* node_of(Graph& g, const OpDef& op, const std::vector<std::string>& outputs) {
  std::vector<Value*> inputs;
  for (const ops::Port& port : op.inputs) {
    if (port.presence == Presence::kOptional) break;
    inputs.push_back(
        g.add_constant("in" + std::to_string(inputs.size()), Tensor(DType::kFloat32, {2, 3, 4})));
  }
  return g.add_node(op.domain, op.name, std::move(inputs), outputs);
}

std::string error_of(Node& node, int64_t opset) {
  try {
    ops::normalize_node(node, opset);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Normalize, a_file_can_not_say_a_private_attribute) {
  int count = 0;
  for (const OpDef* op : OpRegistry::get().all()) {
    if (op->domain == ops::kDomain) continue;
    for (const ops::AttributeDef& attribute : op->attributes) {
      const bool is_private = attribute.doc.find("private") != std::string::npos;
      EXPECT_EQ(is_private, attribute.writer == ops::Writer::kRules) << op->name << attribute.name;
      if (!is_private) continue;
      Graph g;
      Node* node = node_of(g, *op, {"y"});
      node->attributes[attribute.name] = Ints{1, 1000000};
      EXPECT_EQ(error_of(*node, op->since.back()), "");
      // Upsample's rule says it itself.
      const auto left = node->attributes.find(attribute.name);
      EXPECT_TRUE(left == node->attributes.end() || !std::holds_alternative<Ints>(left->second))
          << op->name << " " << attribute.name;
      ++count;
    }
  }
  EXPECT_GE(count, 15);  // needed, legacy_axis, flatten, ...
}

TEST(Normalize, old_forms_become_private_attributes) {
  Graph g;
  Node* node = node_of(g, *OpRegistry::get().find("", "Softmax"), {"y"});
  EXPECT_EQ(error_of(*node, 12), "");
  EXPECT_EQ(node->get_int("flatten", 0), 1);
  EXPECT_EQ(node->get_int("axis", 0), 1);
}

TEST(Normalize, attributes_that_the_operator_does_not_have_are_dropped) {
  Graph g;
  Node* node = node_of(g, *OpRegistry::get().find("", "InstanceNormalization"), {"y"});
  node->attributes = {{"epsilon", 0.5},
                      {"num_groups", int64_t{-1}},
                      {"form", std::string("LayerNormalization")},
                      {"consumed_inputs", Ints{0, 0, 0}}};
  EXPECT_EQ(error_of(*node, 1), "");
  EXPECT_EQ(node->attributes.size(), 1u);
  EXPECT_EQ(node->get_float("epsilon", 0), 0.5);
}

TEST(Normalize, a_flag_is_0_or_1) {
  for (const std::string_view name : ops::flag_names()) {
    int operators = 0;
    for (const OpDef* op : OpRegistry::get().all()) {
      const auto flag = std::ranges::find(op->attributes, name, &ops::AttributeDef::name);
      if (op->domain == ops::kDomain || flag == op->attributes.end()) continue;
      ++operators;
      EXPECT_TRUE(flag->doc.starts_with("int, default 0") ||
                  flag->doc.starts_with("int, default 1"))
          << op->name << ' ' << flag->doc;
      for (const int64_t value : {int64_t{-1}, int64_t{2}, int64_t{1} << 62}) {
        Graph g;
        Node* node = node_of(g, *op, {"y"});
        node->attributes[std::string(name)] = value;
        EXPECT_NE(error_of(*node, 1).find(
                      fmt::format("attribute '{}' is {}, expected 0 or 1", name, value)),
                  std::string::npos)
            << op->name;
      }
    }
    EXPECT_GT(operators, 0) << name;
  }
}

TEST(Normalize, operators_of_ours_are_refused) {
  Graph g;
  auto* x = g.add_input("x", {DType::kFloat32, {2}});
  EXPECT_EQ(error_of(*g.add_node("sardonyx", "ReluGrad", {x, x}, {"y"}), 1),
            "node sardonyx.ReluGrad -> y: sardonyx::ReluGrad is an operator of Sardonyx itself, "
            "which a model can't use");
}

TEST(Normalize, a_required_output_that_is_left_out_is_refused) {
  Graph g;
  Node* node = node_of(g, *OpRegistry::get().find("", "BatchNormalization"), {"", "m", "v"});
  node->name = "bn";
  EXPECT_EQ(error_of(*node, 15),
            "output 0 (y) of node bn (BatchNormalization) is left out, but BatchNormalization "
            "always has it");
  Graph h;
  EXPECT_EQ(error_of(*node_of(h, *OpRegistry::get().find("", "TopK"), {"", "i"}), 11), "");
}

// A hostile file may hold any operator so; rules may refuse it, nothing more.
TEST(Normalize, no_rule_minds_a_node_without_outputs) {
  for (const OpDef* op : OpRegistry::get().all()) {
    if (op->domain == ops::kDomain) continue;  // not in a file
    for (const std::vector<std::string>& outputs : {std::vector<std::string>{}, {""}}) {
      for (const int64_t opset : {1, 6, 9, 12, 13, 28}) {
        Graph g;
        Node* node = node_of(g, *op, outputs);
        EXPECT_EQ(error_of(*node, opset), "") << op->name;
        try {
          ops::NormalizeContext context(*node, opset);
          if (op->normalize) op->normalize(context);
          ops::infer_node(*node);
        } catch (const Error&) {
          continue;
        }
        if (op->batch) op->batch(*node, 0);
      }
    }
  }
}

}  // namespace
}  // namespace sardonyx::test
