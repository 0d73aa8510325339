// A CUDA device as a device: state memory, an arena, streams, and the libraries that kernels use.
//
// All of it belongs to the thread that drives the replica; every entry names the device first, so a
// call from another thread (saving, reading states) works too, one at a time.
#pragma once

#include <functional>
#include <memory>

#include "ops/core/cublas.h"
#include "ops/core/cuda_context.h"
#include "ops/core/cudnn.h"
#include "runtime/devices/device.h"
#include "runtime/devices/thread_pool.h"

namespace sardonyx::runtime {

class CudaDevice final : public Device {
 public:
  // `host_threads` run kernels of the CPU, where a plan has any.
  explicit CudaDevice(int index, DeviceThreads host_threads = 1);
  ~CudaDevice() override;

  ops::Device device() const override { return ops::Device::kCuda; }
  int threads() const override { return 1; }
  std::string name() const override;
  size_t l2_bytes() const override { return facts_.l2_bytes; }
  int vector_floats() const override { return 32; }
  int host_threads() const override { return host_threads_.count; }
  // The thread then speaks to this device: that is what they plan for.
  ops::CudaLibraries* libraries() const override {
    enter();
    return libraries_.get();
  }

  void reserve_states(size_t bytes) override;
  void reserve_arena(size_t bytes) override;
  MemoryLimit free_memory() const override;
  size_t reserved_bytes() const override { return states_.size() + arena_.size(); }
  size_t plan_bytes(const passes::Plan& plan) const override;
  void write_state(size_t offset, const void* host, size_t bytes) override;
  void read_state(size_t offset, void* host, size_t bytes) const override;
  KernelTimes measure(const std::vector<const ops::KernelDef*>& kernels,
                      const ops::KernelRequest& request, passes::RunsOn runs_on) override;
  std::vector<pid_t> worker_ids() const override;
  std::unique_ptr<Executor> load(const passes::Plan& plan) override;

  // Makes the calling thread speak to this device.
  void enter() const { ops::cuda::use_device(index_); }
  ops::cuda::Stream compute() const { return compute_.get(); }
  std::byte* states() const { return states_.data(); }
  std::byte* arena() const { return arena_.data(); }
  // Called again and again while the host waits for this device; throws when what the device itself
  // waits for won't come. Empty: nobody, and the wait is CUDA's.
  void set_watch(std::function<void()> watch) { watch_ = std::move(watch); }
  // Return when the compute stream has done everything, or the event is done.
  void synchronize() const;
  void synchronize(ops::cuda::Event event) const;
  // For kernels of the CPU: at least so much pinned memory, and threads; neither where it is 0.
  void reserve_host(size_t bytes);
  std::byte* host_memory() const { return host_memory_.data(); }
  ops::ThreadPool* host_pool() const { return host_pool_.get(); }
  // Copies through pinned memory, piece by piece, behind everything on the compute stream; returns
  // when the bytes are there.
  void upload(void* device, const void* host, size_t bytes);
  void download(void* host, const void* device, size_t bytes) const;
  struct Download {
    void* host;
    const void* device;
    size_t bytes;
  };
  // The same of several; what fits into the pinned memory together is waited for once.
  void download(const std::vector<Download>& all) const;

 private:
  struct Libraries;

  int index_;
  DeviceThreads host_threads_;
  ops::cuda::DeviceFacts facts_;
  std::function<void()> watch_;
  ops::cuda::OwnedStream compute_;
  ops::cuda::OwnedEvent reached_;  // recorded by who waits for the stream
  ops::cuda::PinnedMemory staging_, host_memory_;
  std::unique_ptr<WorkerPool> host_pool_;
  ops::cuda::Memory states_, arena_;
  std::unique_ptr<Libraries> handles_;
  std::unique_ptr<ops::CudaLibraries> libraries_;
};

}  // namespace sardonyx::runtime
