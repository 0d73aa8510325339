// Devices that needn't be there, as cuDNN describes them, and the convolutions of the workloads.
#pragma once

#include <string>
#include <vector>

#include "ops/core/cuda_native/cudnn_plan.h"
#include "ops/core/cudnn.h"

namespace sardonyx::testing {

struct DescribedDevice {
  const char* name;  // "sm_90"
  std::string json;
};
// An A100 and an H200.
const std::vector<DescribedDevice>& described_devices();

struct WorkloadConvolution {
  std::string name;  // "W2 layer2.0.conv1"
  ops::cudnn::ConvolutionShape shape;
};
// W1: LeNet, batch 256. W2: ResNet-18 for images of 28x28, batch 256. W3 and W4: torchvision's
// ResNet-18, 64 images of 32x32 and 16 of 224x224. Layers of equal shape once.
const std::vector<WorkloadConvolution>& workload_convolutions();

// Why the tests of this folder can't ask cuDNN; "" when they can.
std::string why_no_cudnn();

}  // namespace sardonyx::testing
