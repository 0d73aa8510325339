// Walks a plan on one device. No policy: what runs, where, and in which order is in the plan.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "graph/tensor.h"
#include "passes/plan.h"
#include "runtime/devices/recorder.h"

namespace sardonyx::ops {
class DeviceCommunicator;
}

namespace sardonyx::runtime {

// What changes from run to run.
struct RunArguments {
  std::vector<const void*> inputs;  // host memory, one per Plan::inputs, rows of this plan
  uint64_t seed = 0;
  uint64_t step = 0;
  int64_t first_sample = 0;  // index in the global batch of row 0
  // To the other replicas, from the CPU and from a CUDA device; null: there are none.
  ops::Communicator* communicator = nullptr;
  ops::DeviceCommunicator* device_communicator = nullptr;
  int replica = 0;
  Recorder* recorder = nullptr;  // of the time that steps take; null: none
};

class Executor {
 public:
  virtual ~Executor() = default;
  virtual const passes::Plan& plan() const = 0;
  virtual void run(const RunArguments& arguments) = 0;
  // Value of output i after run(), copied to the host.
  virtual graph::Tensor output(int i) const = 0;
  // Called after each step of an unblocked region with the step and the bytes of its outputs (host
  // memory only for the call): finding the first non-finite value. Empty: not called.
  using Observer = std::function<void(const passes::Step&, const std::vector<const void*>&)>;
  virtual void set_observer(Observer observer) = 0;
};

}  // namespace sardonyx::runtime
