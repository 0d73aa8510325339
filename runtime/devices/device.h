// One device of a replica: facts for the passes, memory for states and the arena, and an executor
// for its plans.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "passes/plan.h"
#include "passes/target.h"
#include "runtime/devices/executor.h"

namespace sardonyx::runtime {

class Device : public passes::Target {
 public:
  // State memory holds at least `bytes`; what it held is kept when it grows.
  virtual void reserve_states(size_t bytes) = 0;
  // The arena holds at least `bytes`; contents don't survive. Called before the first step, never
  // in one.
  virtual void reserve_arena(size_t bytes) = 0;
  virtual void write_state(size_t offset, const void* host, size_t bytes) = 0;
  virtual void read_state(size_t offset, void* host, size_t bytes) const = 0;
  // The plan and the device outlive the executor.
  virtual std::unique_ptr<Executor> load(const passes::Plan& plan) = 0;
};

// Throws Error for a name that isn't "cpu" (or, without CUDA, says that this build has none).
std::unique_ptr<Device> make_device(const std::string& name, int threads);

}  // namespace sardonyx::runtime
