#include "graph/attribute.h"

#include <gtest/gtest.h>

#include <cmath>

#include "graph/graph.h"
#include "graph/support/error.h"

namespace sardonyx::graph {
namespace {

TEST(Attribute, kinds_have_names) {
  EXPECT_EQ(attribute_kind(int64_t{1}), "int");
  EXPECT_EQ(attribute_kind(1.0), "float");
  EXPECT_EQ(attribute_kind(std::string("a")), "string");
  EXPECT_EQ(attribute_kind(std::vector<int64_t>{}), "ints");
  EXPECT_EQ(attribute_kind(std::vector<double>{}), "floats");
  EXPECT_EQ(attribute_kind(std::vector<std::string>{}), "strings");
  EXPECT_EQ(attribute_kind(Tensor::scalar(1.0F)), "tensor");
  EXPECT_EQ(attribute_kind(GraphAttribute{}), "graph");
  EXPECT_EQ(attribute_kind(AttributeReference{"a"}), "reference");
}

TEST(Attribute, same_means_kind_and_bits) {
  EXPECT_TRUE(same_attribute(int64_t{1}, int64_t{1}));
  EXPECT_FALSE(same_attribute(int64_t{1}, 1.0));
  EXPECT_FALSE(same_attribute(0.0, -0.0));
  EXPECT_TRUE(same_attribute(std::nan(""), std::nan("")));
  EXPECT_TRUE(same_attribute(std::vector<double>{NAN, 1}, std::vector<double>{NAN, 1}));
  EXPECT_FALSE(same_attribute(std::vector<double>{1}, std::vector<double>{1, 1}));
  EXPECT_TRUE(same_attribute(std::vector<double>{}, std::vector<double>{}));
  EXPECT_TRUE(same_attribute(Tensor::scalar(1.0F), Tensor::of<float>({}, {1})));
  EXPECT_FALSE(same_attribute(Tensor::scalar(1.0F), Tensor::of<float>({1}, {1})));
  EXPECT_FALSE(same_attribute(GraphAttribute{"a", {"x"}}, GraphAttribute{"a", {"y"}}));
  EXPECT_TRUE(same_attribute(AttributeReference{"a"}, AttributeReference{"a"}));
}

TEST(NodeAttributes, absent_ones_give_the_fallback) {
  Graph graph;
  Node* node = graph.add_node("", "Conv", {}, {"y"});
  EXPECT_FALSE(node->has("group"));
  EXPECT_EQ(node->get_int("group", 1), 1);
  EXPECT_EQ(node->get_float("alpha", 0.5), 0.5);
  EXPECT_EQ(node->get_string("mode", "linear"), "linear");
  EXPECT_EQ(node->get_ints("pads", {0, 0}), (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(node->get_floats("scales", {2}), std::vector<double>{2});
  EXPECT_EQ(node->get_tensor("value"), nullptr);
  node->attributes["group"] = int64_t{4};
  node->attributes["value"] = Tensor::scalar(3.0F);
  EXPECT_EQ(node->get_int("group", 1), 4);
  EXPECT_EQ(node->get_tensor("value")->as_double(0), 3.0);
}

TEST(NodeAttributes, a_wrong_kind_names_node_attribute_found_and_expected) {
  Graph graph;
  Node* node = graph.add_node("", "Conv", {}, {"y"});
  node->name = "conv1";
  node->attributes["group"] = 2.0;
  try {
    node->get_int("group", 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "attribute 'group' of node conv1 (Conv) has kind float, expected int");
  }
}

TEST(NodeLabel, falls_back_to_the_first_output) {
  Graph graph;
  Node* node = graph.add_node("sardonyx", "SGD", {}, {"", "w.1"});
  EXPECT_EQ(node->label(), "sardonyx.SGD -> w.1");
  node->name = "update";
  EXPECT_EQ(node->label(), "update (sardonyx.SGD)");
  EXPECT_EQ(graph.add_node("", "Print", {}, {})->label(), "Print");
}

}  // namespace
}  // namespace sardonyx::graph
