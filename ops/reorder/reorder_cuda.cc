// The CUDA kernel: one strided copy, channels and cells change places through tiles. Lanes of
// images are the CPU's.
#include "ops/core/cuda_strided.h"
#include "ops/core/refusals.h"
#include "ops/reorder/reorder.h"

namespace sardonyx::ops {

void register_reorder_cuda(KernelRegistry& kernels) {
  KernelDef def;
  def.domain = kDomain;
  def.op = "Reorder";
  def.name = "reorder.cuda";
  def.device = Device::kCuda;
  def.layouts = Layouts::kAny;
  def.declines = {{"knows plain and channels last only",
                   [](const KernelRequest& request) { return !is_order_change(request); }},
                  unless_sized()};
  def.create = cuda::device_copy_kernel(order_box);
  kernels.add(std::move(def));
}

}  // namespace sardonyx::ops
