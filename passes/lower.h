// Graph -> Plan: regions, layouts, kernels, memory. The last four stages of every pipeline; they
// share the `Lowering`, because a region is no part of the graph's meaning, only of how it is run.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "passes/pass.h"
#include "passes/plan.h"

namespace sardonyx::passes {

struct RegionSpec {
  std::vector<graph::Node*> nodes;  // in execution order
  int64_t block_rows = 0;           // 0: not blocked
};

struct Lowering {
  std::unique_ptr<graph::Graph> graph;
  std::vector<RegionSpec> regions;
  std::unordered_map<const graph::Node*, const ops::KernelDef*> kernels;
  // How options.kernels calls the nodes of the pipeline; the lowering itself adds others.
  std::unordered_map<const graph::Node*, std::string> keys;
  std::vector<std::string> notices;
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

// The four in order.
std::unique_ptr<Plan> lower(std::unique_ptr<graph::Graph> graph, const PassContext& context,
                            StateTable& states);

}  // namespace sardonyx::passes
