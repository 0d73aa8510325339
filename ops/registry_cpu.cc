// Builds the registries of kernels: of the CPU from the rooms of ops.def, of CUDA devices from
// what CMake's choice of registry_cuda.cc or registry_no_cuda.cc adds.
#include <utility>

#include "ops/core/kernel.h"
#include "ops/registry.h"

namespace sardonyx::ops {

namespace {

KernelRegistry& cpu_kernels() {
  static KernelRegistry registry = [] {
    KernelRegistry r;
#define ROOM(name) register_##name##_cpu(r);
#define VIEW_ROOM(name)
#include "ops/ops.def"
#undef ROOM
#undef VIEW_ROOM
    return r;
  }();
  return registry;
}

KernelRegistry& cuda_kernels() {
  static KernelRegistry registry = [] {
    KernelRegistry r;
    add_cuda_kernels(r);
    return r;
  }();
  return registry;
}

KernelRegistry& kernels_of(Device device) {
  return device == Device::kCpu ? cpu_kernels() : cuda_kernels();
}

}  // namespace

const KernelRegistry& KernelRegistry::get(Device device) { return kernels_of(device); }

void KernelRegistry::extend(KernelDef kernel) { kernels_of(kernel.device).add(std::move(kernel)); }

}  // namespace sardonyx::ops
