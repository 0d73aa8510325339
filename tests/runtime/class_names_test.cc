// Names of classes in a file: where they stand, and when there is nothing to say.
#include "runtime/class_names.h"

#include <gtest/gtest.h>

#include "graph/parse.h"

namespace sardonyx::runtime {
namespace {

using Names = std::vector<std::string>;

Names names_of(const std::string& nodes, int64_t classes = 3) {
  const auto graph = graph::parse(
      R"(<ir_version: 8, opset_import: ["" : 13, "ai.onnx.ml" : 1]>
      g (float[N,3] p) => (label, scores) <int64[3] list = {3, 5, 9}, int64[3] places = {0, 1, 2}> {)" +
      nodes + "}");
  return class_names(*graph, classes);
}

TEST(ClassNames, a_zip_map_names_them) {
  const std::string label = "label = ArgMax<axis = 1>(p) scores = ai.onnx.ml.ZipMap<";
  EXPECT_EQ(names_of(label + "classlabels_int64s = [3, 5, 9]>(p)"), Names({"3", "5", "9"}));
  EXPECT_EQ(names_of(label + R"(classlabels_strings = ["cat", "dog", "eel"]>(p))"),
            Names({"cat", "dog", "eel"}));
  EXPECT_EQ(names_of(label + "classlabels_int64s = [0, 1, 2]>(p)"), Names());
  EXPECT_EQ(names_of(label + "classlabels_int64s = [3, 5, 9]>(p)", 4), Names());
}

TEST(ClassNames, the_list_that_the_best_index_picks_from_names_them) {
  const std::string begin = "scores = Identity(p) i = ArgMax<axis = 1>(p) c = Cast<to = 7>(i) ";
  EXPECT_EQ(names_of(begin + "label = ai.onnx.ml.ArrayFeatureExtractor(list, c)"),
            Names({"3", "5", "9"}));
  EXPECT_EQ(names_of(begin + "label = ai.onnx.ml.ArrayFeatureExtractor(places, c)"), Names());
  EXPECT_EQ(names_of("scores = Identity(p) label = ai.onnx.ml.ArrayFeatureExtractor(list, places)"),
            Names());
}

TEST(ClassNames, many_are_cut) {
  EXPECT_EQ(class_names_str({"3", "5"}), "3, 5: labels are positions 0..1 in that list");
  EXPECT_EQ(class_names_str({"a", "b", "c", "d", "e", "f", "g"}),
            "a, b, c, d, e, f, ...: labels are positions 0..6 in that list");
}

}  // namespace
}  // namespace sardonyx::runtime
