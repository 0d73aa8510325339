// What conv.cu launches, and the other kernels of the room for CUDA devices. Private to ops/conv.
#pragma once

#include <cstdint>

#include "graph/type.h"
#include "ops/core/cuda_sums.h"
#include "ops/core/cudnn.h"

namespace sardonyx::ops {

class KernelRegistry;
struct KernelDef;
struct KernelRequest;

namespace conv {

struct PlainAxis {
  int64_t in = 1, kernel = 1, out = 1, stride = 1, dilation = 1, pad = 0;
};

using cudnn::Order;

// A convolution over three spatial axes; those that it doesn't have are of size 1 and come first.
struct PlainShape {
  static constexpr int kAxes = 3;
  int64_t batch = 0, channels = 0, outputs = 0, groups = 1;
  PlainAxis axis[kAxes];
  Order order = Order::kChannelsFirst;  // of x and y; a filter has its channels second
};

// x, w, y and their gradients of `dtype`: float, double or bfloat16. Sums run in double. b may be
// null.
void launch_forward(cuda::Stream stream, graph::DType dtype, const PlainShape& shape, const void* x,
                    const void* w, const void* b, void* y);
void launch_grad_data(cuda::Stream stream, graph::DType dtype, const PlainShape& shape,
                      const void* w, const void* dy, void* dx);
void launch_grad_filter(cuda::Stream stream, graph::DType dtype, const PlainShape& shape,
                        const void* x, const void* dy, cuda::Write write, void* dw);

// How the operands that carry the batch lie.
Order order_of(const KernelRequest& request);
// Adds the kernel for plain operands, and as NAME_nhwc for those with channels last.
void add_for_both_orders(KernelRegistry& kernels, KernelDef def);
// y += b per channel.
void launch_bias(cuda::Stream stream, const graph::TensorType& y, const void* b, void* data);

// conv_cudnn_cuda.cc
// What kernels conv.cudnn ask the library for.
cudnn::ConvolutionDesc library_desc(const KernelRequest& request, cudnn::Pass pass);
void register_conv_cudnn(KernelRegistry& kernels);

}  // namespace conv

}  // namespace sardonyx::ops
