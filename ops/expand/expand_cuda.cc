// CUDA kernels of Expand and Tile: strided copies that stand still along repetitions.
#include "ops/core/cuda_strided.h"
#include "ops/core/refusals.h"
#include "ops/expand/expand.h"

namespace sardonyx::ops {

void register_expand_cuda(KernelRegistry& kernels) {
  const auto add = [&](const char* op, const char* name,
                       StridedBox (*box_of)(const KernelRequest&)) {
    KernelDef def;
    def.op = op;
    def.name = name;
    def.device = Device::kCuda;
    def.speed = Speed::kOptimised;
    def.declines = {unless_sized(), cuda::beyond_copy_axes(box_of)};
    def.create = cuda::device_copy_kernel(box_of);
    kernels.add(std::move(def));
  };
  add("Expand", "expand.cuda", expand_box);
  add("Tile", "tile.cuda", tile_box);
}

}  // namespace sardonyx::ops
