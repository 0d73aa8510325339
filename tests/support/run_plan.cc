#include "tests/support/run_plan.h"

#include <cstring>

#include "runtime/devices/cpu_device.h"

namespace sardonyx::tests {

using graph::Tensor;

namespace {

struct Lowered {
  passes::StateTable states;
  std::unique_ptr<passes::Plan> plan;
};

Lowered lowered(runtime::Device& device, std::unique_ptr<graph::Graph> graph,
                passes::PassContext context) {
  context.target = &device;
  Lowered result;
  result.plan = passes::lower(std::move(graph), context, result.states);
  device.reserve_states(result.states.bytes());
  device.reserve_arena(result.plan->arena_bytes);
  return result;
}

PlanRun run(runtime::Device& device, Lowered lowered, const std::map<std::string, Tensor>& feeds) {
  PlanRun result;
  result.plan = std::move(lowered.plan);
  for (const auto& entry : lowered.states.entries()) {
    if (!entry.initial.defined()) continue;
    const Tensor value = entry.initial.cast(entry.type.dtype);
    device.write_state(entry.offset, value.aligned_data(), value.bytes().size());
  }
  const auto executor = device.load(*result.plan);
  runtime::RunArguments arguments;
  for (const auto& input : result.plan->inputs) {
    arguments.inputs.push_back(feeds.at(input.name).aligned_data());
  }
  executor->run(arguments);
  for (size_t i = 0; i < result.plan->outputs.size(); ++i) {
    result.outputs[result.plan->outputs[i].name] = executor->output(static_cast<int>(i));
  }
  for (const auto& entry : lowered.states.entries()) {
    Tensor value(entry.type.dtype, entry.type.shape());
    device.read_state(entry.offset, value.mutable_bytes().data(), value.bytes().size());
    result.states[entry.name] = value;
  }
  return result;
}

}  // namespace

PlanRun run_plan(std::unique_ptr<graph::Graph> graph, passes::PassContext context, int threads,
                 const std::map<std::string, Tensor>& feeds) {
  runtime::CpuDevice device(threads);
  Lowered made = lowered(device, std::move(graph), std::move(context));
  // Whatever memory holds before a run must not matter.
  std::memset(device.arena(), 0xff, made.plan->arena_bytes);
  return run(device, std::move(made), feeds);
}

PlanRun run_plan_on(runtime::Device& device, std::unique_ptr<graph::Graph> graph,
                    passes::PassContext context, const std::map<std::string, Tensor>& feeds) {
  return run(device, lowered(device, std::move(graph), std::move(context)), feeds);
}

}  // namespace sardonyx::tests
