// Builds the registry of kernels: those of the rooms of ops.def for the CPU, and what CMake's
// choice of registry_cuda.cc or registry_no_cuda.cc adds.
#include <utility>

#include "ops/core/kernel.h"
#include "ops/registry.h"

namespace sardonyx::ops {

namespace {

KernelRegistry& all_kernels() {
  static KernelRegistry registry = [] {
    KernelRegistry r;
#define ROOM(name) register_##name##_cpu(r);
#define VIEW_ROOM(name)
#include "ops/ops.def"
#undef ROOM
#undef VIEW_ROOM
    add_cuda_kernels(r);
    return r;
  }();
  return registry;
}

}  // namespace

const KernelRegistry& KernelRegistry::get() { return all_kernels(); }

void KernelRegistry::extend(KernelDef kernel) { all_kernels().add(std::move(kernel)); }

}  // namespace sardonyx::ops
