// The CUDA kernel: one strided copy, axes that change places through tiles.
#include "ops/core/cuda_strided.h"
#include "ops/core/refusals.h"
#include "ops/transpose/transpose.h"

namespace sardonyx::ops {

void register_transpose_cuda(KernelRegistry& kernels) {
  KernelDef def;
  def.op = "Transpose";
  def.name = "transpose.cuda";
  def.device = Device::kCuda;
  def.speed = Speed::kOptimised;
  def.declines = {unless_sized(), cuda::beyond_copy_axes(transpose_box)};
  def.create = cuda::device_copy_kernel(transpose_box);
  kernels.add(std::move(def));
}

}  // namespace sardonyx::ops
