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

bool accepts(const ops::KernelDef& kernel, const std::vector<ops::KernelRequest>& requests) {
  for (const ops::KernelRequest& request : requests) {
    if (ops::declines(kernel, request)) return false;
  }
  return true;
}

Choice choose(const Node& node, const std::vector<ops::KernelRequest>& requests,
              const PassContext& context, const ops::KernelDef* asked) {
  const bool rounds_wrongly =
      context.options.direct_only && asked != nullptr && asked->rounding != ops::Rounding::kSum;
  if (asked != nullptr && !rounds_wrongly && accepts(*asked, requests)) return {asked, {}};
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

// An earlier run's kernel gave way to another. No node in the line: one line for all alike.
void notice_replaced(Lowering& lowering, const Node& node, const ops::KernelDef* kernel,
                     const PassContext& context) {
  const auto wanted = context.options.kernels.find(lowering.keys[&node]);
  if (kernel == nullptr || wanted == context.options.kernels.end()) return;
  if (wanted->second == kernel->name) return;
  lowering.notices.push_back(
      fmt::format("the kernel {} of the earlier run can't serve here, {} takes its place: results "
                  "may round differently",
                  wanted->second, kernel->name));
}

}  // namespace

const ops::KernelDef* asked_kernel(const Node& node, const std::string& key,
                                   const PassContext& context) {
  const auto wanted = context.options.kernels.find(key);
  if (wanted == context.options.kernels.end()) return nullptr;
  for (const ops::KernelDef* kernel :
       ops::KernelRegistry::get().find(node.domain, node.op, context.target->device())) {
    if (kernel->name == wanted->second) return kernel;
  }
  return nullptr;
}

void select_kernels(Lowering& lowering, const PassContext& context) {
  const graph::Graph& graph = *lowering.graph;
  std::string missing;
  for (const RegionSpec& region : lowering.regions) {
    for (const Node* node : region.nodes) {
      if (ops::OpRegistry::get().at(*node).view) continue;
      std::vector<ops::KernelRequest> requests{request_for(graph, *node, region.block_rows)};
      const int64_t tail = region.block_rows > 0 ? context.options.batch % region.block_rows : 0;
      if (tail > 0) requests.push_back(request_for(graph, *node, tail));
      const ops::KernelDef* asked = asked_kernel(*node, lowering.keys[node], context);
      const Choice choice = choose(*node, requests, context, asked);
      notice_replaced(lowering, *node, choice.kernel, context);
      if (choice.kernel == nullptr) {
        missing += fmt::format("\n  node {}:{}", node->label(), choice.refusals);
      }
      lowering.kernels[node] = choice.kernel;
    }
  }
  if (!missing.empty()) throw Error("no kernel runs these nodes:{}", missing);
}

}  // namespace sardonyx::passes
