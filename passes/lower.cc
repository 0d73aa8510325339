#include "passes/lower.h"

#include <algorithm>
#include <utility>

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

// Named now: what the stages add isn't the graph's.
void name_nodes(Lowering& lowering) {
  for (const graph::Node& node : lowering.graph->nodes()) {
    if (node.output(0) == nullptr) continue;
    lowering.keys[&node] = fmt::format("{} -> {}", node.op, node.output(0)->name);
  }
}

void regions_stage(Lowering& lowering, const PassContext& context, StateTable&) {
  name_nodes(lowering);
  form_regions(lowering, context);
}

// Views move nothing.
int64_t nodes_that_run(const graph::Graph& graph) {
  return std::ranges::count_if(
      graph.nodes(), [](const graph::Node& node) { return !ops::OpRegistry::get().at(node).view; });
}

void layouts_stage(Lowering& lowering, const PassContext& context, StateTable&) {
  const int64_t nodes = nodes_that_run(*lowering.graph);
  assign_layouts(lowering, context);
  const int64_t reorders = nodes_that_run(*lowering.graph) - nodes;
  if (reorders == 0) return;
  lowering.remarks.push_back(fmt::format("{} Reorder nodes between layouts", reorders));
}

void kernels_stage(Lowering& lowering, const PassContext& context, StateTable&) {
  select_kernels(lowering, context);
}

void memory_stage(Lowering& lowering, const PassContext& context, StateTable& states) {
  Lowering decided = std::exchange(lowering, {});
  std::map<std::string, std::string> kernels = kernels_by_key(decided);
  std::vector<std::string> notices = std::move(decided.notices);
  std::vector<std::string> remarks = context.remarks;
  remarks.insert(remarks.end(), decided.remarks.begin(), decided.remarks.end());
  lowering.plan = plan_memory(std::move(decided), context, states);
  lowering.plan->kernels = std::move(kernels);
  lowering.plan->notices = std::move(notices);
  lowering.plan->remarks = std::move(remarks);
}

void run_stage(const LoweringStage& stage, Lowering& lowering, const PassContext& context,
               StateTable& states, const LoweringDump& dump) {
  stage.run(lowering, context, states);
  if (lowering.graph) graph::verify(*lowering.graph, ops::aliases_of, ops::views_of);
  if (dump) dump(stage.name, lowering);
}

std::string region_heading(const RegionSpec& region, size_t index) {
  return region.block_rows > 0
             ? fmt::format("region {}: blocks of {} rows", index, region.block_rows)
             : fmt::format("region {}: whole batch", index);
}

}  // namespace

const std::vector<LoweringStage>& lowering_stages() {
  static const std::vector<LoweringStage> stages = {
      {"form_regions", regions_stage, "runs of nodes that don't couple rows are regions"},
      {"assign_layouts", layouts_stage, "every value has its layout, changes are Reorder nodes"},
      {"select_kernels", kernels_stage, "every node has the fastest kernel that accepts it"},
      {"plan_memory", memory_stage, "a plan: every value has a place"},
  };
  return stages;
}

std::string print(const Lowering& lowering, const graph::PrintOptions& options) {
  if (lowering.plan) return summary(*lowering.plan) + "\n" + print(*lowering.plan);
  std::unordered_map<const graph::Node*, std::string> headings;
  for (size_t i = 0; i < lowering.regions.size(); ++i) {
    headings[lowering.regions[i].nodes.front()] = region_heading(lowering.regions[i], i);
  }
  graph::PrintOptions annotated = options;
  annotated.heading = [&](const graph::Node& node) {
    const auto it = headings.find(&node);
    return it == headings.end() ? "" : it->second;
  };
  annotated.remark = [&](const graph::Node& node) -> std::string {
    const auto it = lowering.kernels.find(&node);
    return it == lowering.kernels.end() ? "" : it->second->name;
  };
  return graph::print(*lowering.graph, annotated);
}

std::unique_ptr<Plan> lower(std::unique_ptr<graph::Graph> graph, const PassContext& context,
                            StateTable& states, const LoweringDump& dump) {
  Lowering lowering;
  lowering.graph = std::move(graph);
  for (const LoweringStage& stage : lowering_stages()) {
    run_stage(stage, lowering, context, states, dump);
  }
  return std::move(lowering.plan);
}

void run_named(Lowering& lowering, PassContext& context, StateTable& states,
               const std::vector<std::string>& names, const Instruments& instruments,
               const LoweringDump& dump) {
  const std::vector<LoweringStage>& stages = lowering_stages();
  const auto first_stage = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
    return std::any_of(stages.begin(), stages.end(),
                       [&](const LoweringStage& stage) { return stage.name == name; });
  });
  const auto count = static_cast<size_t>(names.end() - first_stage);
  for (size_t i = 0; i < count; ++i) {
    if (i < stages.size() && first_stage[i] == stages[i].name) continue;
    throw Error("'{}' can't stand there: behind the passes come {}, {}, {}, {}, from the first on",
                first_stage[i], stages[0].name, stages[1].name, stages[2].name, stages[3].name);
  }
  Pipeline passes;
  for (auto name = names.begin(); name != first_stage; ++name) passes.push_back({*name, ""});
  run_pipeline(*lowering.graph, context, passes, instruments);
  if (count > 0) {
    require_before(stages[0].name, {"infer_shapes"}, {context.done.begin(), context.done.end()});
  }
  for (size_t i = 0; i < count; ++i) run_stage(stages[i], lowering, context, states, dump);
}

}  // namespace sardonyx::passes
