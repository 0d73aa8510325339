#include "passes/lower.h"

#include "graph/verify.h"

namespace sardonyx::passes {

std::unique_ptr<Plan> lower(std::unique_ptr<graph::Graph> graph, const PassContext& context,
                            StateTable& states) {
  Lowering lowering;
  lowering.graph = std::move(graph);
  form_regions(lowering, context);
  assign_layouts(lowering, context);
  graph::verify(*lowering.graph, ops::aliases_of, ops::views_of);
  select_kernels(lowering, context);
  return plan_memory(std::move(lowering), context, states);
}

}  // namespace sardonyx::passes
