#include "graph/names.h"

#include <gtest/gtest.h>

#include "graph/builder.h"

namespace sardonyx::graph {
namespace {

using Names = std::vector<std::string>;

TEST(FreshName, takes_the_wish_then_the_smallest_free_number) {
  Graph graph;
  EXPECT_EQ(fresh_name(graph, "grad/w"), "grad/w");
  graph.add_input("grad/w", {});
  EXPECT_EQ(fresh_name(graph, "grad/w"), "grad/w.1");
  EXPECT_EQ(fresh_name(graph, "grad/w"), "grad/w.1");  // asking takes nothing
  graph.add_input("grad/w.1", {});
  graph.add_input("grad/w.3", {});
  EXPECT_EQ(fresh_name(graph, "grad/w"), "grad/w.2");
  graph.add_input("grad/w.2", {});
  EXPECT_EQ(fresh_name(graph, "grad/w"), "grad/w.4");
  EXPECT_EQ(fresh_name(graph, "grad/w.1"), "grad/w.1.1");
  EXPECT_EQ(fresh_name(graph, ""), "value");
}

// The name depends on the names in the graph alone, not on what happened before.
TEST(FreshName, freed_names_are_used_again) {
  Graph graph;
  Builder b(graph);
  for (int i = 0; i < 5; ++i) b.constant("c", Tensor::scalar(1.0F));
  EXPECT_EQ(fresh_name(graph, "c"), "c.5");
  graph.remove(graph.find("c.2"));
  EXPECT_EQ(fresh_name(graph, "c"), "c.2");
  graph.rename(graph.find("c.1"), "other");
  EXPECT_EQ(fresh_name(graph, "c"), "c.1");
  EXPECT_EQ(fresh_name(*graph.clone(), "c"), "c.1");
}

TEST(NearNames, orders_by_distance_then_by_substring) {
  const Names names{"conv1.weight", "conv1.bias", "conv2.weight", "fc.weight", "weight"};
  EXPECT_EQ(near_names("conv1.wieght", names), (Names{"conv1.weight", "conv2.weight"}));
  EXPECT_EQ(near_names("conv1.weight", names, 1), Names{"conv1.weight"});
  EXPECT_EQ(near_names("bias", names), Names{"conv1.bias"});
  EXPECT_EQ(near_names("Relu", {"relu", "Elu", "Softmax"}), (Names{"relu", "Elu"}));
}

TEST(NearNames, is_empty_when_nothing_is_near) {
  EXPECT_EQ(near_names("momentum", {"group", "pads"}), Names{});
  EXPECT_EQ(near_names("ab", {"xy"}), Names{});  // every letter differs
  EXPECT_EQ(near_names("", {"a"}), Names{});
  EXPECT_EQ(near_names("a", {}), Names{});
}

TEST(Names, a_misspelt_word_is_no_other_word) {
  const Names known{"Conv", "Relu", "Elu", "Exp", "Gemm", "Add", "Reshape", "Softmax"};
  EXPECT_EQ(misspelt("Covn", known), Names{"Conv"});
  EXPECT_EQ(misspelt("relu", known), Names{"Relu"});
  EXPECT_EQ(misspelt("Sotfmx", known), Names{"Softmax"});
  for (const char* other : {"Erf", "Gelu", "And", "Resize", "Selu", "BatchNormalization", ""}) {
    EXPECT_EQ(misspelt(other, known), Names{}) << other;
  }
}

TEST(GlobMatch, stars_cross_slashes_and_question_marks_take_one) {
  EXPECT_TRUE(glob_match("*", ""));
  EXPECT_TRUE(glob_match("*.weight", "layer1/conv.weight"));
  EXPECT_TRUE(glob_match("layer?.*", "layer1.0.conv"));
  EXPECT_TRUE(glob_match("a*b*c", "aXbYbZc"));
  EXPECT_TRUE(glob_match("**a**", "bab"));
  EXPECT_TRUE(glob_match("", ""));
  EXPECT_FALSE(glob_match("", "a"));
  EXPECT_FALSE(glob_match("a", "ab"));
  EXPECT_FALSE(glob_match("?", ""));
  EXPECT_FALSE(glob_match("a*b", "abc"));
  EXPECT_FALSE(glob_match("conv[12]", "conv1"));  // brackets are ordinary characters
}

TEST(GlobMatch, many_stars_do_not_explode) {
  EXPECT_FALSE(glob_match("a*a*a*a*a*a*a*a*a*a*b", std::string(2000, 'a')));
}

}  // namespace
}  // namespace sardonyx::graph
