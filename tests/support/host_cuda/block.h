// Runs the CUDA threads of one block after another as fibers of the calling host thread.
//
// A fiber takes thread after thread of the block until one must wait for others; then another fiber
// goes on. So a kernel without barriers costs one call per thread, and never more than two switches
// per block. Every second block starts with its last thread: what forgets a barrier meets both
// orders.
#pragma once

#include <functional>
#include <string>

namespace sardonyx::ops::cuda {
struct Grid;
}

namespace sardonyx::host_cuda {

// `thread` is called once for each thread of the grid with threadIdx etc. set. Throws InternalError
// naming the kernel when some threads of a block wait for others that never come, and whatever the
// kernel throws.
void run_grid(const std::string& name, const ops::cuda::Grid& grid,
              const std::function<void()>& thread);

}  // namespace sardonyx::host_cuda
