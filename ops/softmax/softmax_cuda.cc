// CUDA kernels: plain layouts, one launch.
#include "ops/softmax/softmax_cuda.h"

#include "ops/core/cuda_context.h"
#include "ops/core/refusals.h"
#include "ops/softmax/softmax.h"

namespace sardonyx::ops {

namespace {

using softmax::Which;

void add(KernelRegistry& kernels, const char* domain, const char* op, Which which) {
  const bool backward = which == Which::kSoftmaxGrad || which == Which::kLogSoftmaxGrad;
  KernelDef def;
  def.domain = domain;
  def.op = op;
  def.name = "softmax.cuda";
  def.device = Device::kCuda;
  def.speed = Speed::kOptimised;
  def.in_place = {{0, 0}};
  if (backward) def.in_place.emplace_back(0, 1);
  def.declines = {unless_float()};
  def.create = prepared_launch([which, backward](const KernelRequest& request) {
    const Lines lines = softmax::groups_of(*request.node, request.in[0]);
    const softmax::Groups groups = {lines.outer, lines.length, lines.inner};
    return [which, backward, groups, dtype = request.in[0].dtype](CudaContext& context) {
      softmax::launch(context.stream, dtype, which, groups, context.inputs[0],
                      backward ? context.inputs[1] : nullptr, context.outputs[0]);
    };
  });
  kernels.add(std::move(def));
}

}  // namespace

void register_softmax_cuda(KernelRegistry& kernels) {
  add(kernels, "", "Softmax", Which::kSoftmax);
  add(kernels, "", "LogSoftmax", Which::kLogSoftmax);
  add(kernels, kDomain, "SoftmaxGrad", Which::kSoftmaxGrad);
  add(kernels, kDomain, "LogSoftmaxGrad", Which::kLogSoftmaxGrad);
}

}  // namespace sardonyx::ops
