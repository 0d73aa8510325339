// Convolutions as operation graphs of cuDNN, planned for a device that is there or only described.
#pragma once

#include "ops/core/cuda_native/cudnn_plan.h"
#include "ops/core/cudnn.h"

namespace sardonyx::ops::cudnn {

// Names of the tensors in the plan: a, b, out and bias of Convolution::run.
inline constexpr int64_t kTensorA = 1, kTensorB = 2, kTensorOut = 3, kTensorBias = 4;

// By their part in the convolution; which of them is a, b and out depends on the pass.
struct ConvolutionTensors {
  TensorSpec x, w, y;
};
ConvolutionTensors convolution_tensors(const ConvolutionDesc& desc);
// The operation of desc.pass over these tensors, whatever their names are.
Descriptor convolution_operation(const ConvolutionDesc& desc, const ConvolutionTensors& tensors);
// y = mode(x, b), added up in float.
Descriptor pointwise_operation(cudnnPointwiseMode_t mode, const TensorSpec& x, const TensorSpec* b,
                               const TensorSpec& y);
// One number of `type` per channel of `like`.
TensorSpec per_channel(int64_t id, const TensorSpec& like, cudnnDataType_t type);
// All operations of the description: the bias is one of its own.
std::vector<Descriptor> convolution_operations(const ConvolutionDesc& desc);
// What an engine must not do to count as desc.math.
PlanLimits convolution_limits(const ConvolutionDesc& desc);

// Throws Error with the library's reason when no engine takes it.
Plan plan_convolution(const PlanTarget& target, const ConvolutionDesc& desc);

}  // namespace sardonyx::ops::cudnn
