// Adds the kernels of cuda_rooms.def. CMake picks this file or registry_no_cuda.cc.
#include "ops/core/kernel.h"
#include "ops/registry.h"

namespace sardonyx::ops {

#define CUDA_ROOM(name) void register_##name##_cuda(KernelRegistry& kernels);
#include "ops/cuda_rooms.def"
#undef CUDA_ROOM

void add_cuda_kernels([[maybe_unused]] KernelRegistry& kernels) {
#define CUDA_ROOM(name) register_##name##_cuda(kernels);
#include "ops/cuda_rooms.def"
#undef CUDA_ROOM
}

}  // namespace sardonyx::ops
