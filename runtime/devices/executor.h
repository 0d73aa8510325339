// Walks a plan on one device. No policy: what runs, where, and in which order is in the plan.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "graph/tensor.h"
#include "passes/plan.h"

namespace sardonyx::runtime {

// What changes from run to run.
struct RunArguments {
  std::vector<const void*> inputs;  // host memory, one per Plan::inputs, rows of this plan
  uint64_t seed = 0;
  uint64_t step = 0;
  int64_t first_sample = 0;                   // index in the global batch of row 0
  ops::Communicator* communicator = nullptr;  // to the other replicas; null: there are none
};

// Where the time of runs went.
struct StepTime {
  const passes::Step* step = nullptr;
  double seconds =
      0;             // wall time; in a blocked region the sum over threads divided by their number
  double flops = 0;  // of all runs, where the operator counts them
};

class Executor {
 public:
  virtual ~Executor() = default;
  virtual const passes::Plan& plan() const = 0;
  virtual void run(const RunArguments& arguments) = 0;
  // Value of output i after run(), copied to the host.
  virtual graph::Tensor output(int i) const = 0;
  // Called after each step of an unblocked region with the step and the bytes of its outputs (host
  // memory only for the call): finding the first non-finite value, traces. Empty: not called.
  using Observer = std::function<void(const passes::Step&, const std::vector<const void*>&)>;
  virtual void set_observer(Observer observer) = 0;

  // Measures every step from now on (from zero), or stops measuring. Costs two clock readings a
  // step.
  enum class Timing : uint8_t { kOff, kOn };
  virtual void set_timing(Timing timing) = 0;
  // One entry per step of the plan, in its order.
  virtual std::vector<StepTime> times() const = 0;
};

}  // namespace sardonyx::runtime
