// What conv.cu launches, and the other kernels of the room for CUDA devices. Private to ops/conv.
#pragma once

#include <cstdint>

#include "graph/type.h"
#include "ops/core/cuda_sums.h"

namespace sardonyx::ops {

class KernelRegistry;

namespace conv {

struct PlainAxis {
  int64_t in = 1, kernel = 1, out = 1, stride = 1, dilation = 1, pad = 0;
};

// A convolution over three spatial axes; those that it doesn't have are of size 1 and come first.
struct PlainShape {
  static constexpr int kAxes = 3;
  int64_t batch = 0, channels = 0, outputs = 0, groups = 1;
  PlainAxis axis[kAxes];
};

// x, w, y and their gradients of `dtype`, row-major with channels second. Sums run in double.
// b may be null.
void launch_forward(cuda::Stream stream, graph::DType dtype, const PlainShape& shape, const void* x,
                    const void* w, const void* b, void* y);
void launch_grad_data(cuda::Stream stream, graph::DType dtype, const PlainShape& shape,
                      const void* w, const void* dy, void* dx);
void launch_grad_filter(cuda::Stream stream, graph::DType dtype, const PlainShape& shape,
                        const void* x, const void* dy, cuda::Write write, void* dw);

// conv_cudnn_cuda.cc
void register_conv_cudnn(KernelRegistry& kernels);

}  // namespace conv

}  // namespace sardonyx::ops
