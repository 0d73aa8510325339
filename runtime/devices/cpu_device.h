// The CPU as a device: a thread pool, huge-paged state memory and arena.
#pragma once

#include "runtime/devices/device.h"
#include "runtime/devices/huge_memory.h"
#include "runtime/devices/thread_pool.h"

namespace sardonyx::runtime {

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(const DeviceThreads& threads);

  ops::Device device() const override { return ops::Device::kCpu; }
  int threads() const override { return pool_.size(); }
  std::string name() const override;
  size_t l2_bytes() const override;
  int vector_floats() const override;

  void reserve_states(size_t bytes) override;
  void reserve_arena(size_t bytes) override;
  // Nothing counts: the limit is one of all that there is.
  MemoryLimit free_memory() const override { return memory_limit(); }
  size_t reserved_bytes() const override { return 0; }
  void write_state(size_t offset, const void* host, size_t bytes) override;
  void read_state(size_t offset, void* host, size_t bytes) const override;
  KernelTimes measure(const std::vector<const ops::KernelDef*>& kernels,
                      const ops::KernelRequest& request, passes::RunsOn runs_on) override;
  std::vector<pid_t> worker_ids() const override { return pool_.worker_ids(); }
  std::unique_ptr<Executor> load(const passes::Plan& plan) override;

  ops::ThreadPool& pool() { return pool_; }
  std::byte* states() const { return states_.data(); }
  std::byte* arena() const { return arena_.data(); }

 private:
  WorkerPool pool_;
  HugeMemory states_;
  HugeMemory arena_;
};

}  // namespace sardonyx::runtime
