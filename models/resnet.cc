#include "models/resnet.h"

#include <array>

#include "graph/support/error.h"
#include "models/layers.h"

namespace sardonyx::models {

using graph::Value;

namespace {

std::array<int, 4> blocks_of(int depth) {
  if (depth == 18) return {2, 2, 2, 2};
  if (depth == 34) return {3, 4, 6, 3};
  throw Error("a ResNet of depth {} has other blocks; known: 18, 34", depth);
}

class Builder {
 public:
  Builder(graph::Graph& graph, const ResNet& options)
      : layers_(graph, options.image.init),
        imagenet_(options.stem == Stem::kImagenet),
        bias_(imagenet_ ? Bias::kNone : Bias::kAdded) {}

  Value* stem(Value* x, int64_t from, int64_t to) {
    const Window window = imagenet_ ? Window{7, 2, 3} : Window{3, 1, 1};
    x = normalized(x, "conv1", "bn1", from, to, window);
    x = layers_.relu(x, "relu1");
    return imagenet_ ? layers_.pool("MaxPool", x, {3, 2, 1}, "maxpool") : x;
  }

  // Two 3x3 convolutions around which the input goes unchanged, or through a 1x1 convolution where
  // the shape changes.
  Value* block(Value* x, const std::string& name, int64_t from, int64_t to, int64_t stride) {
    Value* y = normalized(x, name + ".conv1", name + ".bn1", from, to, {3, stride, 1});
    y = layers_.relu(y, name + ".relu1");
    y = normalized(y, name + ".conv2", name + ".bn2", to, to, {3, 1, 1});
    if (from != to || stride != 1) x = shortcut(x, name + ".downsample", from, to, stride);
    return layers_.relu(layers_.add(y, x, name + ".sum"), name + ".relu2");
  }

  Layers& layers() { return layers_; }

 private:
  Value* normalized(Value* x, const std::string& conv, const std::string& norm, int64_t from,
                    int64_t to, const Window& window) {
    x = layers_.conv(x, conv, from, to, {window, bias_});
    return layers_.batch_norm(x, norm, to);
  }

  Value* shortcut(Value* x, const std::string& name, int64_t from, int64_t to, int64_t stride) {
    if (imagenet_) return normalized(x, name + ".0", name + ".1", from, to, {1, stride, 0});
    return layers_.conv(x, name + ".0", from, to, {{1, stride, 0}, bias_});
  }

  Layers layers_;
  const bool imagenet_;
  const Bias bias_;
};

}  // namespace

Stem parse_stem(const std::string& text) {
  if (text == "small") return Stem::kSmall;
  if (text == "imagenet") return Stem::kImagenet;
  throw Error("--stem '{}' is not known; known: small, imagenet", text);
}

std::unique_ptr<graph::Graph> resnet(const ResNet& options) {
  const std::array<int, 4> blocks = blocks_of(options.depth);
  auto graph = image_graph(fmt::format("resnet{}", options.depth), options.image);
  Builder builder(*graph, options);
  Value* x = builder.stem(graph->inputs()[0], options.image.channels, options.width);
  int64_t channels = options.width;
  for (int stage = 0; stage < 4; ++stage) {
    const int64_t wider = options.width << stage;
    for (int i = 0; i < blocks[static_cast<size_t>(stage)]; ++i) {
      const int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      x = builder.block(x, fmt::format("layer{}.{}", stage + 1, i), channels, wider, stride);
      channels = wider;
    }
  }
  finish(*graph, options.image,
         builder.layers().pooled_head(x, "fc", channels, options.image.classes));
  return graph;
}

}  // namespace sardonyx::models
