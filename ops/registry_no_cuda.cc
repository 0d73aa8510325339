// What a build without CUDA has of it: nothing, and the words for it.
#include "graph/support/error.h"
#include "ops/core/cuda_context.h"
#include "ops/registry.h"

namespace sardonyx::ops {

void add_cuda_kernels(KernelRegistry&) {}

void launch_add(CudaContext&, DType, int64_t, const void*, void*) {
  throw InternalError("a build without CUDA launched a kernel");
}

std::unique_ptr<Kernel> on_host(std::unique_ptr<Kernel>, const KernelRequest&) {
  throw InternalError("a build without CUDA planned for a CUDA device");
}

}  // namespace sardonyx::ops
