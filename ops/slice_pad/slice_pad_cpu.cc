// The room's kernels stand in slice_cpu.cc and pad_cpu.cc.
#include "ops/slice_pad/slice_pad_cpu.h"

namespace sardonyx::ops {

void register_slice_pad_cpu(KernelRegistry& kernels) {
  register_slice_cpu(kernels);
  register_pad_cpu(kernels);
}

}  // namespace sardonyx::ops
