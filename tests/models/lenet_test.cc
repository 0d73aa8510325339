#include "models/lenet.h"

#include <gtest/gtest.h>

#include "graph/onnx_export.h"
#include "graph/onnx_import.h"
#include "graph/verify.h"
#include "tests/support/onnx_sketch.h"

namespace sardonyx::models {
namespace {

std::map<std::string, std::string> parameters(const graph::Graph& graph) {
  std::map<std::string, std::string> types;
  for (const graph::Value* constant : graph.constants()) {
    types[constant->name] = constant->type.str();
  }
  return types;
}

TEST(LeNet, has_the_parameters_of_the_book_under_pytorch_names) {
  const std::map<std::string, std::string> expected = {
      {"conv1.weight", "float[20,1,3,3]"},  {"conv1.bias", "float[20]"},
      {"conv2.weight", "float[50,20,5,5]"}, {"conv2.bias", "float[50]"},
      {"fc1.weight", "float[128,800]"},     {"fc1.bias", "float[128]"},
      {"fc2.weight", "float[10,128]"},      {"fc2.bias", "float[10]"}};
  EXPECT_EQ(parameters(*lenet({})), expected);
}

TEST(LeNet, nodes_stand_in_the_order_of_the_network) {
  std::vector<std::string> ops;
  const auto graph = lenet({});
  for (const graph::Node& node : graph->nodes()) ops.push_back(node.op);
  const std::vector<std::string> expected = {"Conv", "Relu",        "AveragePool", "Conv",
                                             "Relu", "AveragePool", "Flatten",     "Gemm",
                                             "Relu", "Gemm"};
  EXPECT_EQ(ops, expected);
}

TEST(LeNet, the_batch_is_symbolic_and_the_opset_is_17) {
  const auto graph = lenet({});
  EXPECT_EQ(graph->opsets.at(""), 17);
  EXPECT_EQ(graph->inputs()[0]->type.str(), "float[N,1,28,28]");
  EXPECT_EQ(graph->outputs()[0]->type.str(), "float[N,10]");
}

TEST(LeNet, follows_image_size_channels_and_classes) {
  ImageModel options;
  options.channels = 3;
  options.height = 32;
  options.width = 48;
  options.classes = 7;
  const auto types = parameters(*lenet(options));
  EXPECT_EQ(types.at("conv1.weight"), "float[20,3,3,3]");
  EXPECT_EQ(types.at("fc1.weight"), "float[128,2250]");  // 50 x 5 x 9
  EXPECT_EQ(types.at("fc2.weight"), "float[7,128]");
}

TEST(LeNet, smallest_image_is_16_x_16) {
  ImageModel options;
  options.height = options.width = 16;
  EXPECT_EQ(parameters(*lenet(options)).at("fc1.weight"), "float[128,50]");
  options.width = 15;
  EXPECT_EQ(sardonyx::testing::error_of([&] { lenet(options); }),
            "LeNet needs images of at least 16 x 16, asked for 16 x 15");
}

TEST(LeNet, file_reads_back_to_the_same_graph) {
  ImageModel options;
  options.init = graph::parse_init("kaiming", 5);
  const auto graph = lenet(options);
  const std::string bytes = graph::to_onnx_bytes(*graph);
  const auto imported = graph::import_model(graph::Model::from_bytes(bytes));
  EXPECT_TRUE(imported.notices.empty());
  ASSERT_EQ(parameters(*imported.graph), parameters(*graph));
  for (const graph::Value* constant : graph->constants()) {
    EXPECT_TRUE(imported.graph->find(constant->name)->data.identical(constant->data))
        << constant->name;
  }
  EXPECT_EQ(graph::to_onnx_bytes(*lenet(options)), bytes);
}

}  // namespace
}  // namespace sardonyx::models
