#include "models/lenet.h"

#include "models/layers.h"

namespace sardonyx::models {

namespace {

constexpr int64_t kSmallestImage = 16;

int64_t behind_pools(int64_t size) { return ((size - 2) / 2 - 4) / 2; }

}  // namespace

std::unique_ptr<graph::Graph> lenet(const ImageModel& options) {
  check_image("LeNet", options, kSmallestImage);
  auto graph = image_graph("lenet", options);
  Layers layers(*graph, options.init);
  graph::Value* x = graph->inputs()[0];
  x = layers.conv(x, "conv1", options.channels, 20, {.window = {.size = 3}});
  x = layers.pool("AveragePool", layers.relu(x, "relu1"), {2, 2}, "pool1");
  x = layers.conv(x, "conv2", 20, 50, {.window = {.size = 5}});
  x = layers.pool("AveragePool", layers.relu(x, "relu2"), {2, 2}, "pool2");
  x = layers.op("Flatten", x, "flatten");
  const int64_t features = 50 * behind_pools(options.height) * behind_pools(options.width);
  x = layers.linear(x, "fc1", features, 128, "fc1.out");
  x = layers.relu(x, "relu3");
  finish(*graph, options, layers.linear(x, "fc2", 128, options.classes, "output"));
  return graph;
}

}  // namespace sardonyx::models
