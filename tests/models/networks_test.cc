// The convolutional networks beside LeNet: parameters under torchvision's names, shapes that follow
// the options.
#include <gtest/gtest.h>

#include <set>

#include "graph/support/error.h"
#include "graph/verify.h"
#include "models/mobilenet.h"
#include "models/resnet.h"
#include "models/vgg.h"

namespace sardonyx::models {
namespace {

std::map<std::string, std::string> types_of(const graph::Graph& graph) {
  std::map<std::string, std::string> types;
  for (const graph::Value* constant : graph.constants()) {
    types[constant->name] = constant->type.str();
  }
  return types;
}

// As torch counts: without running statistics.
int64_t trainable(const graph::Graph& graph) {
  int64_t count = 0;
  for (const graph::Value* constant : graph.constants()) {
    if (constant->name.find(".running_") != std::string::npos) continue;
    if (constant->name.ends_with(".weight") || constant->name.ends_with(".bias")) {
      count += constant->type.numel();
    }
  }
  return count;
}

int64_t count(const graph::Graph& graph, const std::string& op) {
  int64_t nodes = 0;
  for (const graph::Node& node : graph.nodes()) nodes += node.op == op ? 1 : 0;
  return nodes;
}

TEST(ResNet, the_small_stem_has_biases_and_plain_shortcuts) {
  const auto graph = resnet({});
  EXPECT_EQ(trainable(*graph), 11'175'818);
  const auto types = types_of(*graph);
  EXPECT_EQ(types.at("conv1.weight"), "float[64,1,3,3]");
  EXPECT_EQ(types.at("layer2.0.downsample.0.bias"), "float[128]");
  EXPECT_FALSE(types.contains("layer2.0.downsample.1.weight"));
  EXPECT_FALSE(types.contains("layer1.0.downsample.0.weight"));
  EXPECT_EQ(count(*graph, "Conv"), 20);
  EXPECT_EQ(count(*graph, "BatchNormalization"), 17);
  EXPECT_EQ(count(*graph, "MaxPool"), 0);
}

TEST(ResNet, the_imagenet_stem_is_torchvision_s) {
  ResNet options;
  options.stem = Stem::kImagenet;
  options.image = {.channels = 3, .height = 224, .width = 224, .classes = 10};
  const auto graph = resnet(options);
  EXPECT_EQ(trainable(*graph), 11'181'642);
  const auto types = types_of(*graph);
  EXPECT_EQ(types.at("conv1.weight"), "float[64,3,7,7]");
  EXPECT_EQ(types.at("layer4.0.downsample.1.running_var"), "float[512]");
  EXPECT_FALSE(types.contains("conv1.bias"));
  EXPECT_EQ(count(*graph, "BatchNormalization"), 20);
  EXPECT_EQ(count(*graph, "MaxPool"), 1);
  options.depth = 34;
  options.image.classes = 1000;
  EXPECT_EQ(trainable(*resnet(options)), 21'797'672);
}

TEST(ResNet, width_depth_and_stem_are_checked_or_followed) {
  ResNet options;
  options.width = 8;
  EXPECT_EQ(types_of(*resnet(options)).at("layer4.1.conv2.weight"), "float[64,64,3,3]");
  options.depth = 50;
  EXPECT_THROW(resnet(options), Error);
  EXPECT_THROW(parse_stem("large"), Error);
}

TEST(Vgg, has_torchvision_s_features_and_halves_while_it_can) {
  ImageModel options;
  options.channels = 3;
  options.height = options.width = 32;
  const auto graph = vgg11_bn(options);
  EXPECT_EQ(trainable(*graph), 9'231'114);
  EXPECT_EQ(types_of(*graph).at("features.25.weight"), "float[512,512,3,3]");
  EXPECT_EQ(count(*graph, "MaxPool"), 5);
  options.height = 28;
  EXPECT_EQ(count(*vgg11_bn(options), "MaxPool"), 4);
  EXPECT_EQ(types_of(*vgg11_bn(options, 16)).at("features.25.bias"), "float[128]");
}

TEST(MobileNet, has_torchvision_s_parameters_at_full_width) {
  ImageModel options;
  options.channels = 3;
  const auto graph = mobilenet_v2_small(options);
  EXPECT_EQ(trainable(*graph), 2'236'682);
  const auto types = types_of(*graph);
  EXPECT_EQ(types.at("features.1.conv.0.0.weight"), "float[32,1,3,3]");
  EXPECT_EQ(types.at("features.2.conv.3.running_mean"), "float[24]");
  EXPECT_EQ(count(*graph, "Add"), 10);
  EXPECT_EQ(types_of(*mobilenet_v2_small(options, 8)).at("classifier.1.weight"), "float[10,320]");
}

TEST(Networks, are_whole_graphs_with_a_symbolic_batch) {
  ImageModel options;
  for (const auto& graph : {resnet({}), vgg11_bn(options), mobilenet_v2_small(options)}) {
    graph::verify(*graph);
    EXPECT_EQ(graph->inputs()[0]->type.str(), "float[N,1,28,28]");
    EXPECT_EQ(graph->outputs()[0]->name, "output");
    EXPECT_EQ(graph->outputs()[0]->type.str(), "float[N,10]");
    EXPECT_EQ(graph->opsets.at(""), 17);
  }
}

}  // namespace
}  // namespace sardonyx::models
