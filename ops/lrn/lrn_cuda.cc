// CUDA kernels: plain layouts, sums in double.
#include "ops/lrn/lrn_cuda.h"

#include "ops/core/cuda_context.h"
#include "ops/core/lines.h"
#include "ops/core/refusals.h"

namespace sardonyx::ops {

namespace {

lrn::Norm norm_of(const KernelRequest& request) {
  const Node& node = *request.node;
  const Lines lines = Lines::along(request.in_shape(0), 1);
  const int64_t size = node.get_int("size", 0);
  return {lines.outer,
          lines.length,
          lines.inner,
          (size - 1) / 2,
          size / 2,
          node.get_float("alpha", 1e-4) / static_cast<double>(size),
          node.get_float("beta", 0.75),
          node.get_float("bias", 1)};
}

KernelDef kernel(const char* domain, const char* op) {
  KernelDef def;
  def.domain = domain;
  def.op = op;
  def.name = "lrn.cuda";
  def.device = Device::kCuda;
  def.speed = Speed::kPlain;
  def.declines = {unless_float()};
  return def;
}

}  // namespace

void register_lrn_cuda(KernelRegistry& kernels) {
  KernelDef forward = kernel("", "LRN");
  forward.create = prepared_launch([](const KernelRequest& request) {
    return [norm = norm_of(request), dtype = request.in[0].dtype](CudaContext& context) {
      lrn::launch(context.stream, dtype, norm, context.inputs[0], context.outputs[0]);
    };
  });
  kernels.add(std::move(forward));
  KernelDef backward = kernel(kDomain, "LrnGrad");
  backward.create = prepared_launch([](const KernelRequest& request) {
    return [norm = norm_of(request), dtype = request.in[0].dtype](CudaContext& context) {
      lrn::launch_gradient(context.stream, dtype, norm, context.inputs[0], context.inputs[1],
                           context.outputs[0]);
    };
  });
  kernels.add(std::move(backward));
}

}  // namespace sardonyx::ops
