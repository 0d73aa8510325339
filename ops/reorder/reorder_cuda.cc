// The CUDA kernel: between plain layouts a copy. Lanes of images are the CPU's.
#include "ops/core/cuda_context.h"
#include "ops/core/kernel.h"

namespace sardonyx::ops {

namespace {

void copy(const KernelRequest& request, CudaContext& context) {
  const size_t bytes = request.out[0].bytes();
  if (bytes == 0) return;
  cuda::copy_on_device(context.stream, context.outputs[0], context.inputs[0], bytes);
}

}  // namespace

void register_reorder_cuda(KernelRegistry& kernels) {
  KernelDef def;
  def.domain = kDomain;
  def.op = "Reorder";
  def.name = "reorder.cuda";
  def.device = Device::kCuda;
  def.create = simple_launch(copy);
  kernels.add(std::move(def));
}

}  // namespace sardonyx::ops
