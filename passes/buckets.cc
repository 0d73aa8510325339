#include "passes/buckets.h"

#include <fmt/core.h>

#include <unordered_map>

#include "ops/core/op.h"

namespace sardonyx::passes {

std::vector<BucketFacts> buckets(const graph::Graph& graph) {
  std::vector<BucketFacts> found;
  std::unordered_map<const graph::Node*, size_t> position;
  for (const graph::Node& node : graph.nodes()) {
    position.emplace(&node, position.size());
    const ops::OpDef* op = ops::OpRegistry::get().find(node);
    if (op == nullptr || !op->joins_at) continue;
    BucketFacts facts;
    facts.name = node.output(0)->name;
    facts.bytes = static_cast<int64_t>(node.output(0)->type.bytes());
    const graph::Node* last = nullptr;
    for (const graph::Value* member : node.inputs()) {
      facts.members.push_back(member->name);
      const graph::Node* producer = member->producer;
      if (producer == nullptr) continue;
      if (last == nullptr || position.at(producer) > position.at(last)) last = producer;
    }
    if (last != nullptr) facts.ready_after = last->label();
    found.push_back(std::move(facts));
  }
  return found;
}

std::string print_buckets(const graph::Graph& graph) {
  std::string text;
  for (const BucketFacts& bucket : buckets(graph)) {
    text +=
        fmt::format("{}: {} members, {} bytes, ready after {}:", bucket.name, bucket.members.size(),
                    bucket.bytes, bucket.ready_after.empty() ? "the start" : bucket.ready_after);
    for (const std::string& member : bucket.members) text += " " + member;
    text += "\n";
  }
  return text;
}

}  // namespace sardonyx::passes
