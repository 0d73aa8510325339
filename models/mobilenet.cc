#include "models/mobilenet.h"

#include <fmt/core.h>

#include <algorithm>

#include "models/layers.h"

namespace sardonyx::models {

using graph::Value;

namespace {

struct Stage {
  int64_t expansion, channels, repeats, stride;
};

// Table 2 of the paper; strides as usual for images of 28 to 64 pixels.
constexpr Stage kStages[] = {{1, 16, 1, 1}, {6, 24, 2, 1},  {6, 32, 3, 2}, {6, 64, 4, 2},
                             {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
constexpr int64_t kStem = 32, kHead = 1280;

class Builder {
 public:
  Builder(graph::Graph& graph, const graph::Init& init, int64_t width)
      : layers_(graph, init), width_(width) {}

  // In proportion to the width of the stem, a multiple of 8.
  int64_t scaled(int64_t channels) const {
    return std::max<int64_t>(8, (channels * width_ / kStem + 4) / 8 * 8);
  }

  Value* conv_norm(Value* x, const std::string& conv, const std::string& norm, int64_t from,
                   int64_t to, const Window& window, int64_t groups) {
    return layers_.batch_norm(layers_.conv(x, conv, from, to, {window, Bias::kNone, groups}), norm,
                              to);
  }

  // Convolution NAME.0, normalisation NAME.1, ReLU6 NAME.2.
  Value* active(Value* x, const std::string& name, int64_t from, int64_t to, const Window& window,
                int64_t groups) {
    x = conv_norm(x, name + ".0", name + ".1", from, to, window, groups);
    return layers_.relu6(x, name + ".2");
  }

  Value* inverted_residual(Value* x, const std::string& name, int64_t from, int64_t to,
                           int64_t expansion, int64_t stride) {
    const int64_t wide = from * expansion;
    Value* y = x;
    int part = 0;
    const auto next = [&] { return fmt::format("{}.conv.{}", name, part++); };
    if (expansion != 1) y = active(y, next(), from, wide, {1, 1, 0}, 1);
    y = active(y, next(), wide, wide, {3, stride, 1}, wide);
    const std::string last = next();
    y = conv_norm(y, last, next(), wide, to, {1, 1, 0}, 1);
    return stride == 1 && from == to ? layers_.add(x, y, name + ".sum") : y;
  }

  Layers& layers() { return layers_; }

 private:
  Layers layers_;
  const int64_t width_;
};

}  // namespace

std::unique_ptr<graph::Graph> mobilenet_v2_small(const ImageModel& options, int64_t width) {
  auto graph = image_graph("mobilenet_v2_small", options);
  Builder builder(*graph, options.init, width);
  int64_t channels = builder.scaled(kStem);
  int index = 0;
  const auto next = [&] { return fmt::format("features.{}", index++); };
  Value* x = builder.active(graph->inputs()[0], next(), options.channels, channels, {3, 1, 1}, 1);
  for (const Stage& stage : kStages) {
    for (int64_t i = 0; i < stage.repeats; ++i) {
      const int64_t to = builder.scaled(stage.channels);
      x = builder.inverted_residual(x, next(), channels, to, stage.expansion,
                                    i == 0 ? stage.stride : 1);
      channels = to;
    }
  }
  const int64_t head = std::max(builder.scaled(kHead), channels);
  x = builder.active(x, next(), channels, head, {1, 1, 0}, 1);
  finish(*graph, options, builder.layers().pooled_head(x, "classifier.1", head, options.classes));
  return graph;
}

}  // namespace sardonyx::models
