// Walks a plan on one device. No policy: what runs, where, and in which order is in the plan.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
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
  uint64_t staged = 0;              // which stage() was given the same inputs; 0: none was
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
  // Begins to copy the inputs of a later run, which names the same `staged`, while the device works
  // on earlier ones. They aren't read any more when this returns. Any other run or stage() makes
  // them forgotten. Where there is nothing to copy, or no room for it now, nothing happens.
  virtual void stage(const RunArguments&) {}
  // Values of these outputs after run(), copied to the host; the device is waited for once.
  virtual std::vector<graph::Tensor> outputs(const std::vector<int>& which) const = 0;
  graph::Tensor output(int i) const { return std::move(outputs({i}).front()); }
  // Called after each step of an unblocked region with the step and the bytes of its outputs (host
  // memory only for the call): finding the first non-finite value. Empty: not called.
  using Observer = std::function<void(const passes::Step&, const std::vector<const void*>&)>;
  virtual void set_observer(Observer observer) = 0;
};

}  // namespace sardonyx::runtime
