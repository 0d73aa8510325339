// Builds the registry of CPU kernels from ops.def. CMake picks registry_cuda.cc or
// registry_no_cuda.cc beside it.
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
    return r;
  }();
  return registry;
}

}  // namespace

const KernelRegistry& KernelRegistry::get() { return all_kernels(); }

void KernelRegistry::extend(KernelDef kernel) { all_kernels().add(std::move(kernel)); }

}  // namespace sardonyx::ops
