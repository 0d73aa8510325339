// How a replica on a CUDA device takes part in sums, for who drives it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops/core/cuda_context.h"

namespace sardonyx::runtime {

class DeviceLink : public ops::DeviceCommunicator {
 public:
  // Takes of the device what sums will need, so that the first one takes nothing more. On the
  // threads of all ranks alike, as a sum; again after a run that failed.
  virtual void join() {}
  // Returns when nothing that is still to come on the device can fail for another rank's fault.
  // Throws Error as wait() does. On the thread of the rank, behind its last wait().
  virtual void finish() {}
  // The rank has failed and takes part in nothing more before reset(). On its thread.
  virtual void abort() noexcept {}
  // Nothing is under way any more, whatever was: after a run that failed. Called while no rank is
  // inside a call, before the LocalGroup is used again.
  virtual void reset() = 0;
};

// One per device, null for those on the CPU.
struct DeviceLinks {
  std::vector<std::unique_ptr<DeviceLink>> links;
  std::string notice = {};  // a line for the user when it isn't the way that was to be expected
};

}  // namespace sardonyx::runtime
