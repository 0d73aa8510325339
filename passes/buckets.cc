#include "passes/buckets.h"

#include <fmt/core.h>

#include <unordered_map>

#include "graph/support/text.h"
#include "ops/core/op.h"
#include "passes/node_facts.h"

namespace sardonyx::passes {

namespace {

// When a node is done: as step `order` of the plan.
struct Completion {
  size_t order = 0;
  const graph::Node* node = nullptr;
  int region = -1;
};

std::unordered_map<const graph::Node*, Completion> completions(const Plan& plan) {
  std::unordered_map<const graph::Node*, Completion> found;
  size_t order = 0;
  for (size_t r = 0; r < plan.regions.size(); ++r) {
    const Region& region = plan.regions[r];
    if (!region.blocked()) {
      for (const Step& step : region.steps) {
        found[step.node] = {++order, step.node, -1};
      }
      continue;
    }
    ++order;
    for (const Step& step : region.steps) {
      found[step.node] = {order, region.steps.back().node, static_cast<int>(r)};
    }
  }
  return found;
}

}  // namespace

std::vector<BucketFacts> buckets(const Plan& plan) {
  std::vector<BucketFacts> found;
  const auto done = completions(plan);
  for (const graph::Node& node : plan.graph->nodes()) {
    const ops::OpDef* op = ops::OpRegistry::get().find(node);
    if (op == nullptr || !op->joins_at) continue;
    BucketFacts facts;
    facts.name = node.output(0)->name;
    facts.bytes = static_cast<int64_t>(node.output(0)->type.bytes());
    const Completion* last = nullptr;
    for (const graph::Value* member : node.inputs()) {
      facts.members.push_back(member->name);
      const auto it = done.find(viewed(member)->producer);
      if (it == done.end()) continue;
      if (last == nullptr || it->second.order > last->order) last = &it->second;
    }
    if (last != nullptr) {
      facts.ready_after = last->node->label();
      facts.ready_node = last->node;
      facts.region = last->region;
    }
    found.push_back(std::move(facts));
  }
  return found;
}

std::string print_buckets(const Plan& plan) {
  std::string text;
  for (const BucketFacts& bucket : buckets(plan)) {
    text += fmt::format("{}: {} members, {} bytes, ready after {}{}:", bucket.name,
                        bucket.members.size(), bucket.bytes,
                        bucket.region < 0 ? "" : fmt::format("region {}, ", bucket.region),
                        bucket.ready_after.empty() ? "the start" : bucket.ready_after);
    for (const std::string& member : bucket.members) text += " " + support::escaped(member);
    text += "\n";
  }
  return text;
}

}  // namespace sardonyx::passes
