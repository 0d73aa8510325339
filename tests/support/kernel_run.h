// Runs one kernel on plain tensors as the executor would: operands in the layout of the request,
// fresh outputs full of garbage, workspace of exactly the asked size, guard bytes around all.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/tensor.h"
#include "ops/core/kernel.h"

namespace sardonyx::test {

struct RunOptions {
  int threads = 1;
  // (output, input) pairs that share one buffer.
  std::vector<std::pair<int, int>> shared = {};
  // Defined: output 0 starts as these (plain) numbers and the kernel is asked to add to them.
  graph::Tensor start = {};
};

struct RunResult {
  std::vector<graph::Tensor> outputs;  // plain; undefined for outputs left out
  std::vector<std::string> faults;     // writes out of bounds or into inputs
};

RunResult run_kernel(const ops::KernelDef& kernel, const ops::KernelRequest& request,
                     const std::vector<graph::Tensor>& inputs, const RunOptions& options);

}  // namespace sardonyx::test
