// How a replica on a CUDA device takes part in sums, for who drives it.
#pragma once

#include "ops/core/cuda_context.h"

namespace sardonyx::runtime {

class DeviceLink : public ops::DeviceCommunicator {
 public:
  // Nothing is under way any more, whatever was: after a run that failed. Called while no rank is
  // inside a call, before the LocalGroup is used again.
  virtual void reset() = 0;
};

}  // namespace sardonyx::runtime
