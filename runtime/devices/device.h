// One device of a replica: facts for the passes, memory for states and the arena, and an executor
// for its plans.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "passes/plan.h"
#include "passes/target.h"
#include "passes/tuner.h"
#include "runtime/devices/executor.h"
#include "runtime/devices/kernel_clock.h"
#include "runtime/devices/memory_limit.h"
#include "runtime/devices/waiting.h"

namespace sardonyx::runtime {

class Device : public passes::Target {
 public:
  // State memory holds at least `bytes`; what it held is kept when it grows.
  virtual void reserve_states(size_t bytes) = 0;
  // The arena holds at least `bytes`; contents don't survive. Called before the first step, never
  // in one.
  virtual void reserve_arena(size_t bytes) = 0;
  // Memory that may still be reserved on it, by all replicas together.
  virtual MemoryLimit free_memory() const = 0;
  // That this replica has reserved and that no longer counts as free.
  virtual size_t reserved_bytes() const = 0;
  // What load() takes of it beside states and arena.
  virtual size_t plan_bytes(const passes::Plan&) const { return 0; }
  virtual void write_state(size_t offset, const void* host, size_t bytes) = 0;
  virtual void read_state(size_t offset, void* host, size_t bytes) const = 0;
  // Seconds of each kernel on this device's threads, as measure_kernels.
  virtual KernelTimes measure(const std::vector<const ops::KernelDef*>& kernels,
                              const ops::KernelRequest& request, passes::RunsOn runs_on) = 0;
  // The threads that compute beside the caller, as the system numbers them.
  virtual std::vector<pid_t> worker_ids() const { return {}; }
  // The plan and the device outlive the executor.
  virtual std::unique_ptr<Executor> load(const passes::Plan& plan) = 0;
};

// What a device may use of the machine.
struct DeviceThreads {
  // As the only device: it waits as suits so many threads, and the system places them.
  DeviceThreads(int threads) : count(threads), waiting(waiting_of(threads)) {}  // NOLINT
  DeviceThreads(int threads, Waiting how, std::vector<int> on)
      : count(threads), waiting(how), cores(std::move(on)) {}

  int count;
  Waiting waiting;
  std::vector<int> cores;  // thread i runs on cores[i]; empty: anywhere
};

// "cpu", "cuda:0". Throws Error for another name, and for a CUDA device that isn't there.
std::unique_ptr<Device> make_device(const std::string& name, const DeviceThreads& threads);

}  // namespace sardonyx::runtime
