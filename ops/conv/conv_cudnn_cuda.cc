// Kernels conv.cudnn: one plan of the library per pass and shape; what it refuses is declined. The
// bias follows as a pass of its own, and a filter gradient that is to be added goes through the
// workspace.
#include "ops/conv/conv.h"
#include "ops/conv/conv_cuda.h"
#include "ops/core/cuda_context.h"
#include "ops/core/cudnn.h"
#include "ops/core/refusals.h"

namespace sardonyx::ops::conv {

namespace {

using cudnn::Convolution;
using cudnn::ConvolutionDesc;
using cudnn::Pass;

ConvGeometry geometry_of(const KernelRequest& request, Pass pass) {
  switch (pass) {
    case Pass::kForward:
      return ConvGeometry::forward(request);
    case Pass::kData:
      // That of ConvTranspose comes as one of ConvGradData.
      return ConvGeometry::grad_data(request);
    case Pass::kFilter:
      break;
  }
  return ConvGeometry::grad_filter(request);
}

// An end pad that gives the same outputs, that of the front where it does: cells behind the last
// window are none of the library's business, and equal pads have more engines.
int64_t end_pad(const Window& w, int axis) {
  const int64_t behind = w.in[axis] + 2 * w.pad_begin[axis] - w.extent(axis);
  const bool even = behind >= 0 && behind / w.stride[axis] + 1 == w.out[axis];
  return even ? w.pad_begin[axis] : std::max<int64_t>(w.pad_end[axis], 0);
}

ConvolutionDesc desc_of(const ConvGeometry& g, Pass pass, DType dtype) {
  ConvolutionDesc desc;
  desc.pass = pass;
  desc.dtype = dtype;
  desc.order = cudnn::Order::kChannelsFirst;
  desc.shape.n = g.batch;
  desc.shape.c = g.channels;
  desc.shape.k = g.outputs;
  desc.shape.groups = g.groups;
  desc.shape.in = g.window.in;
  desc.shape.kernel = g.window.kernel;
  desc.shape.out = g.window.out;
  desc.shape.pads_begin = g.window.pad_begin;
  for (int axis = 0; axis < g.window.axes(); ++axis) {
    desc.shape.pads_end.push_back(end_pad(g.window, axis));
  }
  desc.shape.strides = g.window.stride;
  desc.shape.dilations = g.window.dilation;
  return desc;
}

std::string key_of(const ConvolutionDesc& d) {
  const cudnn::ConvolutionShape& s = d.shape;
  std::string key =
      fmt::format("conv {} {} {} {} {} {} {}", static_cast<int>(d.pass), graph::dtype_name(d.dtype),
                  static_cast<int>(d.order), s.n, s.c, s.k, s.groups);
  for (const auto* sizes :
       {&s.in, &s.kernel, &s.out, &s.pads_begin, &s.pads_end, &s.strides, &s.dilations}) {
    key += graph::shape_str(*sizes);
  }
  return key;
}

// Null where the library refuses.
std::shared_ptr<const Convolution> plan_of(const KernelRequest& request, Pass pass) {
  const ConvolutionDesc desc = desc_of(geometry_of(request, pass), pass, request.out[0].dtype);
  return request.libraries->plans.find<Convolution>(
      key_of(desc), [&] { return Convolution::make(request.libraries->cudnn, desc); });
}

size_t aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

class LibraryKernel final : public Kernel {
 public:
  LibraryKernel(std::shared_ptr<const Convolution> plan, Pass pass, const KernelRequest& request)
      : plan_(std::move(plan)), pass_(pass), out_(request.out[0]) {}

  size_t workspace_bytes() const override { return beside_bytes() + plan_->workspace_bytes(); }

  void launch(CudaContext& context) const override {
    auto* workspace = static_cast<std::byte*>(context.workspace);
    void* out = context.accumulate ? workspace : context.out<void>(0);
    const bool filter_first = pass_ == Pass::kData;  // (w, dy)
    plan_->run(context.libraries->cudnn, context.stream, context.in<void>(filter_first ? 1 : 0),
               context.in<void>(filter_first ? 0 : 1), out, workspace + beside_bytes());
    if (context.accumulate) {
      launch_add(context, out_.dtype, out_.numel(), out, context.out<void>(0));
    }
    if (pass_ == Pass::kForward && context.in<void>(2) != nullptr) add_bias(context);
  }

 private:
  // What is to be added to the result.
  size_t beside_bytes() const { return pass_ == Pass::kFilter ? aligned(out_.bytes()) : 0; }

  void add_bias(CudaContext& context) const {
    const int64_t outputs = out_.dims[1].value;
    cuda::add_per_channel(context.stream, out_.dtype, out_.numel(), outputs,
                          out_.numel() / (out_.dims[0].value * outputs), context.in<void>(2),
                          context.out<void>(0));
  }

  std::shared_ptr<const Convolution> plan_;
  Pass pass_;
  TensorType out_;
};

Refusal unless_planned(Pass pass) {
  return {"takes what the library has an engine for", [pass](const KernelRequest& request) {
            return request.libraries == nullptr || plan_of(request, pass) == nullptr;
          }};
}

KernelDef library(const char* domain, const char* op, Pass pass) {
  KernelDef def;
  def.domain = domain;
  def.op = op;
  def.name = "conv.cudnn";
  def.device = Device::kCuda;
  def.speed = Speed::kBest;
  def.accumulates = pass == Pass::kFilter;
  def.declines = {unless_float(), needs_images(), unless_planned(pass)};
  def.create = [pass](const KernelRequest& request) {
    auto plan = plan_of(request, pass);
    CHECK(plan != nullptr, "{}: made from a plan that was refused", request.node->label());
    return std::make_unique<LibraryKernel>(std::move(plan), pass, request);
  };
  return def;
}

}  // namespace

void register_conv_cudnn(KernelRegistry& kernels) {
  kernels.add(library("", "Conv", Pass::kForward));
  kernels.add(library(kDomain, "ConvGradData", Pass::kData));
  kernels.add(library(kDomain, "ConvGradFilter", Pass::kFilter));
}

}  // namespace sardonyx::ops::conv
