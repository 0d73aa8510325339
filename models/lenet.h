// LeNet in the form of the book "Dive into Deep Learning", chapter on multiple GPUs: two
// convolutions with average pooling, two fully connected layers.
#pragma once

#include "models/image_model.h"

namespace sardonyx::models {

// conv 1->20 k3, relu, avgpool 2, conv 20->50 k5, relu, avgpool 2, flatten, fc ->128, relu, fc
// ->classes. Input "input" float[N,C,H,W], output "output" float[N,classes], parameters
// conv1.weight ... fc2.bias. Throws Error when the image is smaller than 16 x 16 (nothing would be
// left behind the second pooling).
std::unique_ptr<graph::Graph> lenet(const ImageModel& options);

}  // namespace sardonyx::models
