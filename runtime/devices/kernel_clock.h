// Measures kernels outside of any plan: on operands of its own, with the threads and the caches as
// they are in a step.
#pragma once

#include <vector>

#include "ops/core/parallel.h"
#include "passes/tuner.h"

namespace sardonyx::runtime {

// The least seconds of a few runs of each kernel, in turns; the first run only warms up. Empty when
// one of them doesn't take made-up operands.
std::vector<double> measure_kernels(ops::ThreadPool& pool,
                                    const std::vector<const ops::KernelDef*>& kernels,
                                    const ops::KernelRequest& request, passes::RunsOn runs_on);

}  // namespace sardonyx::runtime
