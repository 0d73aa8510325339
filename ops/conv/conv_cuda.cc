// Kernels conv.cuda_plain, which take every request with one to three spatial axes, and those of
// ConvTranspose: the kernels of ConvGradData with the bias added behind them. NAME_nhwc is NAME for
// activations with channels last; filters lie plain either way.
#include "ops/conv/conv_cuda.h"

#include <algorithm>

#include "ops/conv/conv.h"
#include "ops/core/cuda_context.h"
#include "ops/core/refusals.h"

namespace sardonyx::ops {

namespace {

using conv::ConvGeometry;
using conv::PlainShape;
using cuda::ChannelCells;
using cuda::Write;

PlainShape plain_shape(const ConvGeometry& g, conv::Order order) {
  PlainShape shape{g.batch, g.channels, g.outputs, g.groups, {}, order};
  const int missing = PlainShape::kAxes - g.window.axes();
  for (int i = 0; i < g.window.axes(); ++i) {
    shape.axis[missing + i] = {g.window.in[i],     g.window.kernel[i],   g.window.out[i],
                               g.window.stride[i], g.window.dilation[i], g.window.pad_begin[i]};
  }
  return shape;
}

Write write_of(const CudaContext& context) {
  return context.accumulate ? Write::kAdd : Write::kOverwrite;
}

using Body = void (*)(const PlainShape& shape, DType dtype, CudaContext& context);

void forward(const PlainShape& shape, DType dtype, CudaContext& context) {
  launch_forward(context.stream, dtype, shape, context.in<void>(0), context.in<void>(1),
                 context.in<void>(2), context.out<void>(0));
}

void grad_data(const PlainShape& shape, DType dtype, CudaContext& context) {
  launch_grad_data(context.stream, dtype, shape, context.in<void>(0), context.in<void>(1),
                   context.out<void>(0));
}

void grad_filter(const PlainShape& shape, DType dtype, CudaContext& context) {
  launch_grad_filter(context.stream, dtype, shape, context.in<void>(0), context.in<void>(1),
                     write_of(context), context.out<void>(0));
}

class PlainKernel final : public Kernel {
 public:
  PlainKernel(const PlainShape& shape, DType dtype, Body body)
      : shape_(shape), dtype_(dtype), body_(body) {}
  void launch(CudaContext& context) const override { body_(shape_, dtype_, context); }

 private:
  PlainShape shape_;
  DType dtype_;
  Body body_;
};

// --- ConvGradBias

class BiasKernel final : public Kernel {
 public:
  explicit BiasKernel(const KernelRequest& request) : dtype_(request.in[0].dtype) {
    const std::vector<int64_t> shape = request.in_shape(0);
    int64_t cells = 1;
    for (size_t i = 2; i < shape.size(); ++i) cells *= shape[i];
    cells_ = conv::order_of(request) == conv::Order::kChannelsLast
                 ? ChannelCells::dense(shape[0] * cells, shape[1], 1)
                 : ChannelCells::dense(shape[0], shape[1], cells);
  }
  size_t workspace_bytes() const override { return cuda::sum_workspace(cells_); }
  void launch(CudaContext& context) const override {
    cuda::sum_channels(context.stream, dtype_, cells_, context.in<void>(0), 1, write_of(context),
                       context.out<void>(0), context.workspace);
  }

 private:
  DType dtype_;
  ChannelCells cells_;
};

// --- ConvTranspose

class Transposed final : public Kernel {
 public:
  Transposed(std::unique_ptr<Kernel> data, const KernelRequest& request)
      : data_(std::move(data)), y_(request.out[0]) {}
  size_t workspace_bytes() const override { return data_->workspace_bytes(); }

  void launch(CudaContext& context) const override {
    CudaContext inner = context;
    inner.inputs = {context.inputs.at(1), context.inputs.at(0)};
    data_->launch(inner);
    if (const void* b = context.in<void>(2)) {
      conv::launch_bias(context.stream, y_, b, context.out<void>(0));
    }
  }

 private:
  std::unique_ptr<Kernel> data_;
  TensorType y_;
};

std::unique_ptr<Kernel> with_bias(std::unique_ptr<Kernel> data, const KernelRequest& request) {
  return std::make_unique<Transposed>(std::move(data), request);
}

// --- Definition

KernelDef define(const char* domain, const char* op) {
  KernelDef def;
  def.domain = domain;
  def.op = op;
  def.name = "conv.cuda_plain";
  def.device = Device::kCuda;
  def.speed = Speed::kPlain;
  def.declines = {unless_stored_float(), beyond_axes(PlainShape::kAxes)};
  return def;
}

KernelDef plain(const char* domain, const char* op, ConvGeometry (*decode)(const KernelRequest&),
                Body body) {
  KernelDef def = define(domain, op);
  def.create = [=](const KernelRequest& request) {
    const PlainShape shape = plain_shape(decode(request), conv::order_of(request));
    return std::make_unique<PlainKernel>(shape, request.out[0].dtype, body);
  };
  return def;
}

}  // namespace

namespace conv {

Order order_of(const KernelRequest& request) {
  const auto last = [](const TensorType& type) { return type.layout.channels_last(); };
  const bool any = std::ranges::any_of(request.in, last) || std::ranges::any_of(request.out, last);
  return any ? Order::kChannelsLast : Order::kChannelsFirst;
}

void add_for_both_orders(KernelRegistry& kernels, KernelDef def) {
  kernels.add(def);
  def.name += "_nhwc";
  def.layouts = Layouts::kChannelsLast;
  kernels.add(std::move(def));
}

void launch_bias(cuda::Stream stream, const TensorType& y, const void* b, void* data) {
  if (y.numel() == 0) return;
  const int64_t channels = y.dims[1].value;
  const int64_t inner = y.layout.channels_last() ? 1 : y.numel() / (y.dims[0].value * channels);
  cuda::add_per_channel(stream, y.dtype, y.numel(), channels, inner, b, data);
}

}  // namespace conv

void register_conv_cuda(KernelRegistry& kernels) {
  using conv::add_for_both_orders;
  add_for_both_orders(kernels, plain("", "Conv", ConvGeometry::forward, forward));
  add_for_both_orders(kernels, plain(kDomain, "ConvGradData", ConvGeometry::grad_data, grad_data));
  KernelDef filter = plain(kDomain, "ConvGradFilter", ConvGeometry::grad_filter, grad_filter);
  filter.accumulates = true;
  add_for_both_orders(kernels, std::move(filter));

  KernelDef bias = define(kDomain, "ConvGradBias");
  bias.accumulates = true;
  bias.declines = {unless_stored_float()};
  bias.create = [](const KernelRequest& request) { return std::make_unique<BiasKernel>(request); };
  add_for_both_orders(kernels, std::move(bias));

  conv::register_conv_cudnn(kernels);
  std::vector<KernelDef> copies;
  for (const KernelDef* kernel : kernels.find(kDomain, "ConvGradData")) {
    copies.push_back(*kernel);
  }
  for (KernelDef& kernel : copies) {
    kernels.add(conv::transposed(std::move(kernel), with_bias));
  }
}

}  // namespace sardonyx::ops
