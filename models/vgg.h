// VGG-11 with batch normalisation (Simonyan and Zisserman 2015), with the parameter names of
// torchvision, and one fully connected layer behind the pooled features, as is usual for small
// images.
#pragma once

#include "models/image_model.h"

namespace sardonyx::models {

// Images are halved five times, where that leaves at least one pixel. Parameters features.0.weight
// ... classifier.bias. `width`: channels of the first convolution (64 in the paper), twice as many
// after each of the next three pools.
std::unique_ptr<graph::Graph> vgg11_bn(const ImageModel& options, int64_t width = 64);

}  // namespace sardonyx::models
