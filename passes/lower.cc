#include "passes/lower.h"

#include "graph/verify.h"

namespace sardonyx::passes {

namespace {

std::map<std::string, std::string> kernels_by_key(const Lowering& lowering) {
  std::map<std::string, std::string> kernels;
  for (const auto& [node, key] : lowering.keys) {
    const auto chosen = lowering.kernels.find(node);
    if (!key.empty() && chosen != lowering.kernels.end()) kernels[key] = chosen->second->name;
  }
  return kernels;
}

}  // namespace

std::unique_ptr<Plan> lower(std::unique_ptr<graph::Graph> graph, const PassContext& context,
                            StateTable& states) {
  Lowering lowering;
  lowering.graph = std::move(graph);
  for (const graph::Node& node : lowering.graph->nodes()) {
    if (node.output(0) == nullptr) continue;
    lowering.keys[&node] = fmt::format("{} -> {}", node.op, node.output(0)->name);
  }
  form_regions(lowering, context);
  assign_layouts(lowering, context);
  graph::verify(*lowering.graph, ops::aliases_of, ops::views_of);
  select_kernels(lowering, context);
  std::map<std::string, std::string> kernels = kernels_by_key(lowering);
  std::vector<std::string> notices = std::move(lowering.notices);
  std::unique_ptr<Plan> plan = plan_memory(std::move(lowering), context, states);
  plan->kernels = std::move(kernels);
  plan->notices = std::move(notices);
  return plan;
}

}  // namespace sardonyx::passes
