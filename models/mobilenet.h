// MobileNetV2 (Sandler et al. 2018) for small images: inverted residuals with depthwise
// convolutions and ReLU6, the first two strides left out, with the parameter names of
// torchvision.
#pragma once

#include "models/image_model.h"

namespace sardonyx::models {

// `width`: channels of the stem (32 in the paper); all others in proportion, in steps of 8.
std::unique_ptr<graph::Graph> mobilenet_v2_small(const ImageModel& options, int64_t width = 32);

}  // namespace sardonyx::models
