// One registration function pair per room, generated from ops.def: a room without its function is a
// link error.
#pragma once

namespace sardonyx::ops {

class OpRegistry;
class KernelRegistry;

#define ROOM(name)                       \
  void register_##name(OpRegistry& ops); \
  void register_##name##_cpu(KernelRegistry& kernels);
#define VIEW_ROOM(name) void register_##name(OpRegistry& ops);
#include "ops/ops.def"
#undef ROOM
#undef VIEW_ROOM

// Those for CUDA devices; none in a build without CUDA.
void add_cuda_kernels(KernelRegistry& kernels);

}  // namespace sardonyx::ops
