// Measures kernels outside of any plan: on operands of its own, with the threads and the caches as
// they are in a step.
#pragma once

#include <vector>

#include "passes/tuner.h"
#include "runtime/devices/thread_pool.h"

namespace sardonyx::runtime {

struct KernelTimes {
  std::vector<double> seconds;  // of each kernel; empty: they can't be measured
  double spread = 1;            // of two measurements that should be alike, largest to least
};

// Sets of measurements of the same kernels, as seconds by kernel: the least of each kernel, and how
// far its two best sets are apart, the farthest of those kernels that may be the fastest. Infinite
// with one set: nothing says that it is right.
KernelTimes agreement(const std::vector<std::vector<double>>& sets);

// Runs each kernel a few times, in turns, behind a run that only warms up; and all again, until two
// sets of runs agree in their least times or there were enough. No seconds when one of the kernels
// doesn't take made-up operands.
KernelTimes measure_kernels(WorkerPool& pool, const std::vector<const ops::KernelDef*>& kernels,
                            const ops::KernelRequest& request, passes::RunsOn runs_on);

// More than that isn't steady.
inline constexpr double kMostSpread = 1.1;

}  // namespace sardonyx::runtime
