// What a kernel of a CUDA device is launched with. Nothing here is owned; everything that `launch`
// does is enqueued on `stream` and not waited for.
#pragma once

#include <functional>
#include <memory>

#include "ops/core/cuda.h"
#include "ops/core/cuda_plans.h"
#include "ops/core/kernel.h"

namespace sardonyx::ops {

namespace cudnn {
class Handle;
}
namespace cublas {
class Handle;
}

// Collectives as kernels of a device see them; the counterpart of Communicator. Every rank starts
// the same sums in the same order.
class DeviceCommunicator {
 public:
  virtual ~DeviceCommunicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Starts data[i] = sum over ranks of data[i] (device memory), behind what `compute` holds now.
  // Until wait(data) nobody else touches the memory. `wire` as in Communicator.
  virtual void start_sum(void* data, size_t count, graph::DType dtype, graph::DType wire,
                         cuda::Stream compute) = 0;
  // What `compute` gets from now on finds the sum. Throws Error when another rank failed.
  virtual void wait(const void* data, cuda::Stream compute) = 0;
};

// The libraries of one device. Kernels are planned with them (KernelRequest::libraries) and run
// with them; they belong to the thread that drives the device.
struct CudaLibraries {
  cudnn::Handle& cudnn;
  cublas::Handle& cublas;
  LibraryPlans plans = {};
};

class CudaContext : public RunContext {
 public:
  void* workspace = nullptr;  // device memory, at least Kernel::workspace_bytes(), 256-byte aligned
  cuda::Stream stream = nullptr;
  CudaLibraries* libraries = nullptr;
  DeviceCommunicator* communicator = nullptr;  // null: the replica is alone
  // For kernels of the CPU (on_host): pinned, at least Kernel::host_bytes(), 64-byte aligned.
  std::byte* host_memory = nullptr;
  ThreadPool* host_pool = nullptr;
  std::function<void()> wait;  // until the stream has done everything
};

// A kernel of the CPU as one of a CUDA device: a launch waits for the stream, copies the operands
// to host memory, runs the kernel and enqueues the copies of the results.
std::unique_ptr<Kernel> on_host(std::unique_ptr<Kernel> kernel, const KernelRequest& request);

// A kernel made from one function that launches something, as simple_kernel.
using LaunchFunction = std::function<void(const KernelRequest&, CudaContext&)>;
std::function<std::unique_ptr<Kernel>(const KernelRequest&)> simple_launch(LaunchFunction function);

// Likewise where something is worked out beforehand: `make` returns what launches.
template <class Make>
std::function<std::unique_ptr<Kernel>(const KernelRequest&)> prepared_launch(Make make) {
  return [make](const KernelRequest& request) {
    return simple_launch([launch = make(request)](const KernelRequest&, CudaContext& context) {
      launch(context);
    })(request);
  };
}

// to[i] += from[i] in device memory; float types. How the sums of micro-batches are added up where
// a kernel can't do it itself.
void launch_add(CudaContext& context, DType dtype, int64_t count, const void* from, void* to);

}  // namespace sardonyx::ops
