// Which of several kernels is the fastest, by measurement: the passes ask, runtime measures, since
// passes know no clock, no thread and no file.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/core/kernel.h"

namespace sardonyx::passes {

// kOneThread: inside a block of a region.
enum class RunsOn : uint8_t { kAllThreads, kOneThread };

class Tuner {
 public:
  virtual ~Tuner() = default;
  // One of `candidates`, which are at least two, can serve `request` and have the choice of the
  // static table in front. The answer to the same question never changes. `turns`: how often the
  // node runs one after another when its plan runs once.
  virtual const ops::KernelDef* fastest(const std::vector<const ops::KernelDef*>& candidates,
                                        const ops::KernelRequest& request, RunsOn runs_on,
                                        int64_t turns) = 0;
};

}  // namespace sardonyx::passes
