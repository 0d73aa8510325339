#include "models/vgg.h"

#include <fmt/core.h>

#include <algorithm>

#include "models/layers.h"

namespace sardonyx::models {

namespace {

constexpr int kPool = 0;  // in the list of stages; a number: a convolution to so many times width

}  // namespace

std::unique_ptr<graph::Graph> vgg11_bn(const ImageModel& options, int64_t width) {
  auto graph = image_graph("vgg11_bn", options);
  Layers layers(*graph, options.init);
  graph::Value* x = graph->inputs()[0];
  int64_t channels = options.channels, smaller = std::min(options.height, options.width);
  int index = 0;  // as torchvision counts: convolution, normalisation, ReLU and pool are one each
  for (const int stage : {1, kPool, 2, kPool, 4, 4, kPool, 8, 8, kPool, 8, 8, kPool}) {
    const auto name = [&](int i) { return fmt::format("features.{}", i); };
    if (stage == kPool) {
      if (smaller >= 2) x = layers.pool("MaxPool", x, {2, 2}, name(index));
      smaller = std::max<int64_t>(smaller / 2, 1);
      ++index;
      continue;
    }
    x = layers.conv(x, name(index), channels, stage * width, {.window = {3, 1, 1}});
    x = layers.batch_norm(x, name(index + 1), stage * width);
    x = layers.relu(x, name(index + 2));
    channels = stage * width;
    index += 3;
  }
  finish(*graph, options, layers.pooled_head(x, "classifier", channels, options.classes));
  return graph;
}

}  // namespace sardonyx::models
