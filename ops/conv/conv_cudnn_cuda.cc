// Kernels conv.cudnn: one plan of the library per pass and shape; what it refuses is declined. The
// bias is part of the plan where cudnn_patterns.def says so, else a pass of its own, and a filter
// gradient that is to be added goes through the workspace. With channels last (conv.cudnn_nhwc) the
// library wants them last in filters, too: these are turned in the workspace, and stay plain for
// everybody else.
#include <algorithm>
#include <optional>
#include <string_view>

#include "ops/conv/conv.h"
#include "ops/conv/conv_cuda.h"
#include "ops/core/cuda_context.h"
#include "ops/core/cuda_strided.h"
#include "ops/core/cudnn.h"
#include "ops/core/refusals.h"

namespace sardonyx::ops::conv {

namespace {

using cudnn::Bias;
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

// --- cudnn_patterns.def

struct PatternEntry {
  std::string_view pattern, arithmetic, sm_80, sm_90;
};
constexpr PatternEntry kPatterns[] = {
#define CUDNN_PATTERN(pattern, arithmetic, sm_80, sm_90) {#pattern, #arithmetic, #sm_80, #sm_90},
#include "ops/conv/cudnn_patterns.def"
#undef CUDNN_PATTERN
};

std::string_view arithmetic_of(const ConvolutionDesc& desc) {
  if (desc.dtype == DType::kBFloat16) return "bf16";
  if (desc.dtype != DType::kFloat32) return "";
  return desc.math == cudnn::Math::kTf32 ? "tf32" : "fp32";
}

// Whether every device of the table has a plan of the graph around this convolution.
bool is_served(std::string_view pattern, const ConvolutionDesc& desc) {
  const auto allows = [&](std::string_view served) {
    const int64_t factor = served == "eights" ? 8 : served == "even" ? 2 : 1;
    return served != "none" && desc.shape.c % factor == 0 && desc.shape.k % factor == 0;
  };
  return std::ranges::any_of(kPatterns, [&](const PatternEntry& entry) {
    return entry.pattern == pattern && entry.arithmetic == arithmetic_of(desc) &&
           allows(entry.sm_80) && allows(entry.sm_90);
  });
}

}  // namespace

ConvolutionDesc library_desc(const KernelRequest& request, Pass pass) {
  const ConvGeometry g = geometry_of(request, pass);
  ConvolutionDesc desc;
  desc.pass = pass;
  desc.dtype = request.out[0].dtype;
  desc.math = request.math;
  desc.order = order_of(request);
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
  const bool has_bias = pass == Pass::kForward && request.has_in(2);
  if (has_bias && is_served("conv_bias", desc)) desc.bias = Bias::kPerOutput;
  return desc;
}

namespace {

std::string key_of(const ConvolutionDesc& d) {
  const cudnn::ConvolutionShape& s = d.shape;
  std::string key =
      fmt::format("conv {} {} {} {} {} {} {} {} {}", static_cast<int>(d.pass),
                  graph::dtype_name(d.dtype), static_cast<int>(d.math), static_cast<int>(d.order),
                  static_cast<int>(d.bias), s.n, s.c, s.k, s.groups);
  for (const auto* sizes :
       {&s.in, &s.kernel, &s.out, &s.pads_begin, &s.pads_end, &s.strides, &s.dilations}) {
    key += graph::shape_str(*sizes);
  }
  return key;
}

struct Planned {
  LibraryAnswer<Convolution> answer;
  Bias bias = Bias::kNone;  // in the plan
};

Planned plan_of(const KernelRequest& request, Pass pass) {
  ConvolutionDesc desc = library_desc(request, pass);
  const auto find = [&] {
    return request.libraries->plans.find<Convolution>(
        key_of(desc), [&] { return Convolution::make(request.libraries->cudnn, desc); });
  };
  auto answer = find();
  if (answer.plan == nullptr && desc.bias != Bias::kNone) {
    desc.bias = Bias::kNone;
    answer = find();
  }
  return {std::move(answer), desc.bias};
}

size_t aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

// From [K][channels][taps] to [K][taps][channels].
StridedBox channels_last(int64_t k, int64_t channels, int64_t taps) {
  const int64_t filter = channels * taps;
  return {{k, taps, channels}, {filter, 1, taps}, {filter, channels, 1}};
}
// And back.
StridedBox channels_second(int64_t k, int64_t channels, int64_t taps) {
  return channels_last(k, taps, channels);
}

// A filter between the order in which it lies and that of the library. Nothing moves where both
// are the same.
class FilterTurn {
 public:
  FilterTurn(const KernelRequest& request, Pass pass)
      : FilterTurn(pass == Pass::kForward ? request.in[1]
                   : pass == Pass::kData  ? request.in[0]
                                          : request.out[0],
                   order_of(request), pass) {}

  bool moves() const { return copy_.has_value(); }
  size_t bytes() const { return moves() ? aligned(bytes_) : 0; }
  void launch(cuda::Stream stream, const void* from, void* to) const {
    copy_->launch(stream, from, to);
  }

 private:
  FilterTurn(const TensorType& w, Order order, Pass pass) : bytes_(w.bytes()) {
    const int64_t k = w.dims[0].value, channels = w.dims[1].value;
    const int64_t taps = w.numel() / (k * channels);
    if (order == Order::kChannelsFirst || channels == 1 || taps == 1) return;
    copy_.emplace(pass == Pass::kFilter ? channels_second(k, channels, taps)
                                        : channels_last(k, channels, taps),
                  w.dtype);
  }

  size_t bytes_;
  std::optional<cuda::DeviceCopy> copy_;
};

// Workspace: the turned filter, what is to be added to the result, that of the library.
class LibraryKernel final : public Kernel {
 public:
  LibraryKernel(Planned planned, Pass pass, const KernelRequest& request)
      : plan_(std::move(planned.answer.plan)),
        planned_bias_(planned.bias),
        pass_(pass),
        out_(request.out[0]),
        turn_(request, pass) {}

  size_t workspace_bytes() const override {
    return turn_.bytes() + beside_bytes() + plan_->workspace_bytes();
  }

  void launch(CudaContext& context) const override {
    if (pass_ == Pass::kFilter) return grad_filter(context);
    const int filter = pass_ == Pass::kForward ? 1 : 0;
    const void* w = context.in<void>(filter);
    if (turn_.moves()) {
      turn_.launch(context.stream, w, context.workspace);
      w = context.workspace;
    }
    const void* bias = pass_ == Pass::kForward ? context.in<void>(2) : nullptr;
    const bool in_plan = planned_bias_ == Bias::kPerOutput;
    convolve(context, context.in<void>(1 - filter), w, in_plan ? bias : nullptr,
             context.out<void>(0));
    if (bias != nullptr && !in_plan) {
      launch_bias(context.stream, out_, bias, context.out<void>(0));
    }
  }

 private:
  size_t beside_bytes() const { return pass_ == Pass::kFilter ? aligned(out_.bytes()) : 0; }

  void grad_filter(CudaContext& context) const {
    auto* turned = static_cast<std::byte*>(context.workspace);
    void* dw = context.accumulate ? turned + turn_.bytes() : context.out<void>(0);
    convolve(context, context.in<void>(0), context.in<void>(1), nullptr,
             turn_.moves() ? turned : dw);
    if (turn_.moves()) turn_.launch(context.stream, turned, dw);
    if (context.accumulate) {
      launch_add(context, out_.dtype, out_.numel(), dw, context.out<void>(0));
    }
  }

  void convolve(CudaContext& context, const void* a, const void* b, const void* bias,
                void* out) const {
    auto* workspace = static_cast<std::byte*>(context.workspace);
    plan_->run(context.libraries->cudnn, context.stream, a, b, bias, out,
               workspace + turn_.bytes() + beside_bytes());
  }

  std::shared_ptr<const Convolution> plan_;
  Bias planned_bias_;
  Pass pass_;
  TensorType out_;
  FilterTurn turn_;
};

Refusal unless_planned(Pass pass) {
  Refusal refusal{"takes what the library has an engine for", [pass](const KernelRequest& request) {
                    return request.libraries == nullptr ||
                           plan_of(request, pass).answer.plan == nullptr;
                  }};
  refusal.library_words = [pass](const KernelRequest& request) {
    return request.libraries == nullptr ? "" : plan_of(request, pass).answer.refusal;
  };
  return refusal;
}

KernelDef library(const char* domain, const char* op, Pass pass) {
  KernelDef def;
  def.domain = domain;
  def.op = op;
  def.name = "conv.cudnn";
  def.device = Device::kCuda;
  def.speed = Speed::kBest;
  def.accumulates = pass == Pass::kFilter;
  def.declines = {unless_stored_float(), needs_images(), unless_planned(pass)};
  def.create = [pass](const KernelRequest& request) {
    Planned planned = plan_of(request, pass);
    CHECK(planned.answer.plan != nullptr, "{}: made from a plan that was refused",
          request.node->label());
    return std::make_unique<LibraryKernel>(std::move(planned), pass, request);
  };
  return def;
}

}  // namespace

void register_conv_cudnn(KernelRegistry& kernels) {
  add_for_both_orders(kernels, library("", "Conv", Pass::kForward));
  add_for_both_orders(kernels, library(kDomain, "ConvGradData", Pass::kData));
  add_for_both_orders(kernels, library(kDomain, "ConvGradFilter", Pass::kFilter));
}

}  // namespace sardonyx::ops::conv
