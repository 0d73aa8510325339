// Lowers a graph and runs its plan once on a device, in memory that held NaN bits before.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "passes/lower.h"

namespace sardonyx::runtime {
class Device;
}

namespace sardonyx::tests {

struct PlanRun {
  std::map<std::string, graph::Tensor> outputs;
  std::map<std::string, graph::Tensor> states;  // after the bindings
  std::unique_ptr<passes::Plan> plan;
};

// `graph` has gone through its passes; the context's target is replaced by a device of `threads`
// threads.
PlanRun run_plan(std::unique_ptr<graph::Graph> graph, passes::PassContext context, int threads,
                 const std::map<std::string, graph::Tensor>& feeds);

// The same on any device: it replaces the context's target. Its arena should hold NaN bits.
PlanRun run_plan_on(runtime::Device& device, std::unique_ptr<graph::Graph> graph,
                    passes::PassContext context, const std::map<std::string, graph::Tensor>& feeds);

}  // namespace sardonyx::tests
