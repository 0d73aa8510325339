// ResNet-18 and ResNet-34 (He et al. 2016, "Deep Residual Learning for Image Recognition"), with
// the parameter names of torchvision.
#pragma once

#include "models/image_model.h"

namespace sardonyx::models {

// kSmall: for small images, as in the book "Dive into Deep Learning": 3x3 convolution with stride
// 1, no pooling, every convolution with a bias, the shortcut's 1x1 convolution without
// normalisation. kImagenet: torchvision's: 7x7 convolution with stride 2, max-pool 3 with stride 2,
// no biases, shortcuts normalised.
enum class Stem : uint8_t { kSmall, kImagenet };
Stem parse_stem(const std::string& text);  // "small", "imagenet"; throws Error

struct ResNet {
  ImageModel image;
  Stem stem = Stem::kSmall;
  int64_t width = 64;  // channels of the first stage; each later one has twice as many
  int depth = 18;      // 18 or 34
};

// Throws Error for another depth.
std::unique_ptr<graph::Graph> resnet(const ResNet& options);

}  // namespace sardonyx::models
