// Graph -> Plan: regions, layouts, kernels, memory. The last four stages of every pipeline; they
// share the `Lowering`, because a region is no part of the graph's meaning, only of how it is run.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/print.h"
#include "passes/pass_manager.h"
#include "passes/plan.h"

namespace sardonyx::passes {

struct RegionSpec {
  std::vector<graph::Node*> nodes;  // in execution order
  int64_t block_rows = 0;           // 0: not blocked
};

// What the stages have decided so far.
struct Lowering {
  std::unique_ptr<graph::Graph> graph;
  std::vector<RegionSpec> regions;
  std::unordered_map<const graph::Node*, const ops::KernelDef*> kernels;
  // How options.kernels calls the nodes of the pipeline; the lowering itself adds others.
  std::unordered_map<const graph::Node*, std::string> keys;
  std::vector<std::string> notices;
  std::vector<std::string> remarks;  // like those of PassContext
  std::unique_ptr<Plan> plan;        // by plan_memory, which takes all of the above
};

// The kernel that options.kernels names for this node, when it exists on this target; else nullptr.
const ops::KernelDef* asked_kernel(const graph::Node& node, const std::string& key,
                                   const PassContext& context);

// Rows of a block for this graph on this target (options.block, or the choice when it is -1); 0: no
// blocks.
int64_t choose_block(const graph::Graph& graph, const PassContext& context);
// Cuts the node list into regions: maximal runs of nodes that don't couple rows, blocked where the
// target wants it.
void form_regions(Lowering& lowering, const PassContext& context);
// Chooses lanes or plain per value of a blocked region and inserts Reorder nodes at the borders.
void assign_layouts(Lowering& lowering, const PassContext& context);
// One kernel per node. Throws Error listing every node for which no kernel accepts, with each
// kernel's sentence.
void select_kernels(Lowering& lowering, const PassContext& context);
// Lifetimes, in-place and views, offsets; makes the kernels ready.
std::unique_ptr<Plan> plan_memory(Lowering lowering, const PassContext& context,
                                  StateTable& states);

struct LoweringStage {
  std::string_view name;
  void (*run)(Lowering&, const PassContext&, StateTable&);
  std::string_view doc;  // what it ensures
};
// The four in order.
const std::vector<LoweringStage>& lowering_stages();

// The graph as text, with a line in front of each region and, behind each node, its kernel, as far
// as they are known; after plan_memory the plan.
std::string print(const Lowering& lowering, const graph::PrintOptions& options = {});

// Called after each stage.
using LoweringDump = std::function<void(std::string_view stage, const Lowering&)>;

// All stages.
std::unique_ptr<Plan> lower(std::unique_ptr<graph::Graph> graph, const PassContext& context,
                            StateTable& states, const LoweringDump& dump = {});
// Passes and, behind them, stages by name. Throws Error when stages don't stand last and in their
// order, from the first on, or without the passes on whose work they build.
void run_named(Lowering& lowering, PassContext& context, StateTable& states,
               const std::vector<std::string>& names, const Instruments& instruments = {},
               const LoweringDump& dump = {});

}  // namespace sardonyx::passes
