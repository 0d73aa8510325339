// select_kernels: the fastest kernel that accepts, per node. What can't run is listed at once.
#include "passes/lower.h"
#include "passes/requests.h"

namespace sardonyx::passes {

namespace {

using graph::Node;

struct Choice {
  const ops::KernelDef* kernel = nullptr;
  std::string refusals;
};

Choice choose(const Node& node, const std::vector<ops::KernelRequest>& requests,
              const PassContext& context) {
  Choice choice;
  const ops::Device device = context.target->device();
  for (const ops::KernelDef* kernel :
       ops::KernelRegistry::get().find(node.domain, node.op, device)) {
    if (context.options.reference_only && kernel->speed != ops::Speed::kReference &&
        kernel->layouts != ops::Layouts::kAny) {
      continue;
    }
    if (context.options.direct_only && kernel->rounding != ops::Rounding::kSum) continue;
    std::optional<std::string> reason;
    for (const ops::KernelRequest& request : requests) {
      if (!reason) reason = ops::declines(*kernel, request);
    }
    if (!reason) return {kernel, {}};
    choice.refusals += fmt::format("\n    {}: {}", kernel->name, *reason);
  }
  if (choice.refusals.empty()) choice.refusals = "\n    no kernel is registered for this device";
  return choice;
}

}  // namespace

void select_kernels(Lowering& lowering, const PassContext& context) {
  const graph::Graph& graph = *lowering.graph;
  std::string missing;
  for (const RegionSpec& region : lowering.regions) {
    for (const Node* node : region.nodes) {
      if (ops::OpRegistry::get().at(*node).view) continue;
      std::vector<ops::KernelRequest> requests{request_for(graph, *node, region.block_rows)};
      const int64_t tail = region.block_rows > 0 ? context.options.batch % region.block_rows : 0;
      if (tail > 0) requests.push_back(request_for(graph, *node, tail));
      const Choice choice = choose(*node, requests, context);
      if (choice.kernel == nullptr) {
        missing += fmt::format("\n  node {}:{}", node->label(), choice.refusals);
      }
      lowering.kernels[node] = choice.kernel;
    }
  }
  if (!missing.empty()) throw Error("no kernel runs these nodes:{}", missing);
}

}  // namespace sardonyx::passes
