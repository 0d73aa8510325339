// contrib: what other spellings compute, against numbers of onnxruntime 1.19.
#include <gtest/gtest.h>

#include <cmath>

#include "graph/parse.h"
#include "graph/support/error.h"
#include "ops/core/infer.h"
#include "ops/core/normalize.h"
#include "tests/support/interpret.h"
#include "tests/support/tensors.h"

namespace sardonyx::test {
namespace {

using graph::Tensor;

// The values of a graph whose nodes are brought to their standard form.
std::map<std::string, Tensor> run(const std::string& signature, const std::string& body,
                                  int64_t opset = 20) {
  const auto graph =
      graph::parse("<ir_version: 8, opset_import: [\"\" : " + std::to_string(opset) +
                   ", \"com.microsoft\" : 1, \"ai.onnx.ml\" : 1]>\ng () => (" + signature + R"() <
  float[2,3] x = {1, -2, 0.5, 3, 0.25, -1}, float[2,3] skip = {0.5, 1, -1, 2, -0.5, 1},
  float[3] b = {0.5, -1, 2}, float[3] scale = {1, 2, -1}, float[3] beta = {0.25, 0, -0.5},
  float[2,2,3] a = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, float[2,2] m = {1, 0, 2, 1},
  int32[3] classes = {4, 5, 6}, int64[1,2] chosen = {2, 0}>
{)" + body + "}");
  std::vector<graph::Node*> nodes;
  for (graph::Node& node : graph->nodes()) nodes.push_back(&node);
  for (graph::Node* node : nodes) ops::normalize_node(*node, node->domain.empty() ? opset : 1);
  for (graph::Node& node : graph->nodes()) {
    EXPECT_TRUE(node.domain.empty()) << node.domain;
    ops::infer_node(node);
  }
  return tests::interpret(*graph, {}).values;
}

Tensor y_of(const std::string& body, int64_t opset = 20) {
  return run("float[?,?] y", body, opset).at("y");
}

void expect_values(const Tensor& got, const std::vector<int64_t>& shape,
                   const std::vector<double>& wanted) {
  ASSERT_EQ(got.shape(), shape);
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(got.as_double(static_cast<int64_t>(i)), wanted[i],
                2e-6 + 2e-6 * std::abs(wanted[i]))
        << i;
  }
}

TEST(Contrib, forms_of_gelu) {
  expect_values(y_of("y = com.microsoft.Gelu(x)"), {2, 3},
                {0.84134471, -0.045500278, 0.34573123, 2.9959502, 0.14967658, -0.15865526});
  expect_values(y_of("y = com.microsoft.FastGelu(x)"), {2, 3},
                {0.84119201, -0.045402348, 0.345714, 2.9963627, 0.14967535, -0.15880796});
  expect_values(y_of("y = com.microsoft.FastGelu(x, b)"), {2, 3},
                {1.3995715, -0.0036375225, 2.4849157, 3.4993837, -0.17003945, 0.84119201});
  expect_values(y_of("y = com.microsoft.BiasGelu(x, b)"), {2, 3},
                {1.3997892, -0.0040496886, 2.4844761, 3.4991858, -0.16997051, 0.84134471});
  expect_values(y_of("y = com.microsoft.QuickGelu<alpha = 1.5>(x)"), {2, 3},
                {0.81757444, -0.094851732, 0.33958936, 2.9670391, 0.14816666, -0.18242556});
}

TEST(Contrib, fused_mat_mul_exchanges_the_last_axes) {
  expect_values(y_of("y = com.microsoft.FusedMatMul<transB = 1, alpha = 0.5>(a, a)"), {2, 2, 2},
                {7, 16, 16, 38.5, 97, 133, 133, 182.5});
  expect_values(y_of("y = com.microsoft.FusedMatMul<transA = 1>(a, m)"), {2, 3, 2},
                {9, 4, 12, 5, 15, 6, 27, 10, 30, 11, 33, 12});
  EXPECT_THROW(y_of("y = com.microsoft.FusedMatMul<transBatchA = 1>(a, a)"), Error);
}

TEST(Contrib, normalisations) {
  const std::vector<double> layer = {1.1364311, -2.7859263,  -1.0065321,
                                     1.5942322, -0.59743655, 0.54551387};
  expect_values(y_of("y = LayerNormalization<epsilon = 0.01>(x, scale, beta)", 16), {2, 3}, layer);
  expect_values(y_of("y = com.microsoft.LayerNormalization<epsilon = 0.01>(x, scale, beta)"),
                {2, 3}, layer);
  expect_values(y_of("y = SimplifiedLayerNormalization<epsilon = 0.01>(x, scale)"), {2, 3},
                {0.75377834, -3.0151134, -0.37688917, 1.6356204, 0.27260339, 0.54520679});
  const auto both = run(
      "float[2,3] y, float[2,3] sum",
      R"(y, "", "", sum = com.microsoft.SkipLayerNormalization<epsilon = 0.01>(x, skip, scale, beta, b))");
  expect_values(both.at("y"), {2, 3},
                {1.0915995, -2.8053315, -1.0610663, 1.4887668, -2.4171059, -0.4697862});
  expect_values(both.at("sum"), {2, 3}, {2, -2, 1.5, 5.5, -1.25, 2});
  expect_values(
      y_of("y = com.microsoft.SkipSimplifiedLayerNormalization<epsilon = 0.01>(x, skip, scale)"),
      {2, 3}, {1.3828164, -1.8437552, 0.46093881, 1.7288554, -0.17288554, 0});
  expect_values(y_of("y = com.microsoft.SkipSimplifiedLayerNormalization<epsilon = 0.01>"
                     "(x, skip, scale, b)"),
                {2, 3},
                {2 / std::sqrt(41.0 / 12 + 0.01), -4 / std::sqrt(41.0 / 12 + 0.01),
                 -1.5 / std::sqrt(41.0 / 12 + 0.01), 5.5 / std::sqrt(35.8125 / 3 + 0.01),
                 -2.5 / std::sqrt(35.8125 / 3 + 0.01), -2 / std::sqrt(35.8125 / 3 + 0.01)});
}

TEST(Contrib, closing_nodes_of_scikit_learn) {
  expect_values(y_of("y = ai.onnx.ml.ZipMap<classlabels_int64s = [0, 1, 2]>(x)"), {2, 3},
                {1, -2, 0.5, 3, 0.25, -1});
  expect_values(y_of("y = ai.onnx.ml.ArrayFeatureExtractor(classes, chosen)"), {1, 2}, {6, 4});
  expect_values(y_of("y = ai.onnx.ml.ArrayFeatureExtractor(x, chosen)"), {2, 2}, {0.5, 1, -1, 3});
}

}  // namespace
}  // namespace sardonyx::test
