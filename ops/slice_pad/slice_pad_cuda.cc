// CUDA kernels: Slice and SliceGrad are strided copies, Pad and PadGrad look the elements up.
#include "ops/slice_pad/slice_pad_cuda.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "ops/core/cuda_strided.h"
#include "ops/core/refusals.h"
#include "ops/slice_pad/slice_pad.h"

namespace sardonyx::ops {

namespace {

// dx is zero but for the window.
class SliceGradKernel final : public Kernel {
 public:
  explicit SliceGradKernel(const KernelRequest& request)
      : bytes_(request.out[0].bytes()), copy_(slice_grad_copy(request), request.out[0].dtype) {}
  void launch(CudaContext& context) const override {
    if (bytes_ == 0) return;
    cuda::fill_zero(context.stream, context.outputs[0], bytes_);
    copy_.launch(context.stream, context.inputs[0], context.outputs[0]);
  }

 private:
  size_t bytes_;
  cuda::DeviceCopy copy_;
};

// Innermost first.
std::vector<PadAxis> joined_axes(const KernelRequest& request) {
  std::vector<PadAxis> axes = pad_axes(request), joined;
  std::reverse(axes.begin(), axes.end());
  for (const PadAxis& axis : axes) {
    if (!joined.empty() && axis.identity() && joined.back().identity()) {
      joined.back().dim *= axis.dim;
    } else {
      joined.push_back(axis);
    }
  }
  return joined;
}

PadNest nest_of(const KernelRequest& request) {
  PadNest nest;
  nest.mode = pad_mode(*request.node);
  for (const PadAxis& axis : joined_axes(request)) {
    nest.axis[nest.axes++] = {axis.dim, axis.size(), axis.first(), axis.kept(),
                              std::max<int64_t>(axis.begin, 0)};
    nest.x_count *= axis.dim;
    nest.y_count *= axis.size();
  }
  nest.narrow = std::max(nest.x_count, nest.y_count) <= std::numeric_limits<int32_t>::max();
  return nest;
}

// A constant may have another type than x.
PadValue constant_value(const KernelRequest& request) {
  PadValue value;
  if (const Tensor* constant = request.constant(2)) {
    const Tensor element = constant->cast(request.out[0].dtype);
    std::memcpy(&value.bits, element.bytes().data(), element.bytes().size());
  }
  return value;
}

auto pad(const KernelRequest& request) {
  return [nest = nest_of(request), value = constant_value(request),
          computed = request.has_in(2) && request.constant(2) == nullptr,
          bytes = static_cast<int>(graph::dtype_size(request.out[0].dtype))](CudaContext& context) {
    PadValue around = value;
    if (computed) around.at = context.inputs[2];
    launch_pad(context.stream, bytes, nest, around, context.inputs[0], context.outputs[0]);
  };
}

auto pad_grad(const KernelRequest& request) {
  return [nest = nest_of(request), dtype = request.out[0].dtype](CudaContext& context) {
    launch_pad_grad(context.stream, dtype, nest, context.inputs[0], context.outputs[0]);
  };
}

Refusal beyond_pad_axes() {
  return {
      "knows up to 8 axes after those without pads were merged",
      [](const KernelRequest& request) { return joined_axes(request).size() > cuda::kWalkAxes; }};
}

Refusal unless_value_like_x() {
  return {"takes a computed value of the type of x only", [](const KernelRequest& request) {
            return request.has_in(2) && request.constant(2) == nullptr &&
                   request.in[2].dtype != request.in[0].dtype;
          }};
}

KernelDef kernel(const char* domain, const char* op, const char* name,
                 std::vector<Refusal> refusals) {
  KernelDef def;
  def.domain = domain;
  def.op = op;
  def.name = name;
  def.device = Device::kCuda;
  def.speed = Speed::kOptimised;
  def.declines = std::move(refusals);
  return def;
}

}  // namespace

void register_slice_pad_cuda(KernelRegistry& kernels) {
  KernelDef slice =
      kernel("", "Slice", "slice.cuda", {unless_sized(), cuda::beyond_copy_axes(slice_copy)});
  slice.create = cuda::device_copy_kernel(slice_copy);
  kernels.add(std::move(slice));

  KernelDef slice_grad = kernel(kDomain, "SliceGrad", "slice_grad.cuda",
                                {unless_sized(), cuda::beyond_copy_axes(slice_grad_copy)});
  slice_grad.create = [](const KernelRequest& request) {
    return std::make_unique<SliceGradKernel>(request);
  };
  kernels.add(std::move(slice_grad));

  KernelDef of_pad =
      kernel("", "Pad", "pad.cuda", {unless_sized(), beyond_pad_axes(), unless_value_like_x()});
  of_pad.create = prepared_launch(pad);
  kernels.add(std::move(of_pad));

  KernelDef of_pad_grad =
      kernel(kDomain, "PadGrad", "pad_grad.cuda", {unless_stored_float(), beyond_pad_axes()});
  of_pad_grad.create = prepared_launch(pad_grad);
  kernels.add(std::move(of_pad_grad));
}

}  // namespace sardonyx::ops
