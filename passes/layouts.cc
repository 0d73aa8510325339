// assign_layouts: inside blocked regions values may lie in lanes of 16 images; the changes are
// Reorder nodes.
//
// A node with a lanes kernel gets lanes; an element-wise node (kSameAll) takes what its first
// operand has; all others, and everything that crosses a region's border, are plain.
#include <map>
#include <unordered_set>

#include "graph/names.h"
#include "ops/core/lane_shapes.h"
#include "ops/core/op_builder.h"
#include "passes/lower.h"
#include "passes/node_facts.h"
#include "passes/requests.h"

namespace sardonyx::passes {

namespace {

using graph::Graph;
using graph::Layout;
using graph::Node;
using graph::Value;

enum class Wish : uint8_t { kPlain, kLanes, kFollow };

Wish wish_of(const ops::KernelDef& kernel) {
  if (kernel.layouts == ops::Layouts::kLanes) return Wish::kLanes;
  return kernel.layouts == ops::Layouts::kSameAll ? Wish::kFollow : Wish::kPlain;
}

Wish wish_of(const Graph& graph, const Node& node, int64_t rows, const ops::KernelDef* asked) {
  if (ops::OpRegistry::get().at(node).view) return Wish::kFollow;
  const ops::KernelRequest lanes = request_in_lanes(graph, node, rows);
  if (asked != nullptr && asked->layouts == ops::Layouts::kPlain) return Wish::kPlain;
  if (asked != nullptr && !ops::declines(*asked, lanes)) return wish_of(*asked);
  for (const ops::KernelDef* kernel : ops::KernelRegistry::get().find(node.domain, node.op)) {
    if (ops::declines(*kernel, lanes)) continue;
    if (wish_of(*kernel) != Wish::kPlain) return wish_of(*kernel);
  }
  return Wish::kPlain;
}

class LayoutAssigner {
 public:
  // `behind`: the first node after the region, nullptr when it is the last.
  LayoutAssigner(Lowering& lowering, const PassContext& context, RegionSpec& region, Node* behind)
      : lowering_(lowering),
        context_(context),
        graph_(*lowering.graph),
        region_(region),
        behind_(behind) {}

  void run() {
    const std::vector<Node*> nodes = region_.nodes;
    inside_.insert(nodes.begin(), nodes.end());
    for (size_t i = 0; i < nodes.size(); ++i) {
      visit(nodes[i], i + 1 < nodes.size() ? nodes[i + 1] : behind_);
    }
    region_.nodes = std::move(order_);
  }

 private:
  void visit(Node* node, Node* next) {
    const ops::KernelDef* asked = asked_kernel(*node, lowering_.keys[node], context_);
    Wish wish = wish_of(graph_, *node, region_.block_rows, asked);
    if (wish == Wish::kFollow) wish = first_operand_in_lanes(*node) ? Wish::kLanes : Wish::kPlain;
    const bool lanes = wish == Wish::kLanes;
    for (int i = 0; i < node->num_inputs(); ++i) {
      Value* value = node->input(i);
      if (!ops::carries_batch(graph_, value)) continue;
      if (in_lanes(value) != lanes) graph_.set_input(node, i, reordered(value, lanes, node));
    }
    order_.push_back(node);
    if (!lanes) return;
    for (Value* value : node->outputs()) {
      if (!ops::carries_batch(graph_, value)) continue;
      value->type.layout = Layout::lanes(16);
      if (leaves_region(value)) publish(value, next);
    }
  }

  bool first_operand_in_lanes(const Node& node) const {
    for (const Value* value : node.inputs()) {
      if (ops::carries_batch(graph_, value)) return in_lanes(value);
    }
    return false;
  }

  static bool in_lanes(const Value* value) { return ops::lanes::in_lanes(value->type); }

  Value* reordered(Value* value, bool lanes, Node* before) {
    auto [it, fresh] = reordered_.try_emplace({value, lanes}, nullptr);
    if (fresh) it->second = reorder(value, lanes, before);
    return it->second;
  }

  Value* reorder(Value* value, bool lanes, Node* before) {
    ops::OpBuilder b(graph_, before);
    Value* result = b.own("Reorder", {value}, {{"to", std::string(lanes ? "n16" : "plain")}},
                          value->name + (lanes ? "@n16" : "@plain"));
    order_.push_back(result->producer);
    inside_.insert(result->producer);
    return result;
  }

  bool leaves_region(const Value* value) const {
    if (outlives_plan(graph_, value)) return true;
    for (const graph::Use& use : value->uses()) {
      if (!inside_.contains(use.node)) return true;
    }
    return false;
  }

  // Uses outside the region read a plain copy, made right behind the producer.
  void publish(Value* value, Node* next) {
    Value* plain = reorder(value, false, next);
    reordered_[{value, false}] = plain;
    const std::vector<graph::Use> uses = value->uses();
    for (const graph::Use& use : uses) {
      if (!inside_.contains(use.node)) graph_.set_input(use.node, use.index, plain);
    }
    if (graph_.is_output(value)) {
      // Who asks for the output knows its name.
      const std::string name = value->name;
      graph_.rename(value, graph::fresh_name(graph_, name + "@n16"));
      graph_.rename(plain, name);
    }
    for (size_t i = 0; i < graph_.outputs().size(); ++i) {
      if (graph_.outputs()[i] == value) graph_.set_output(static_cast<int>(i), plain);
    }
    for (const graph::Binding& binding : std::vector<graph::Binding>(graph_.bindings())) {
      if (binding.next != value) continue;
      graph_.unbind(binding.state);
      graph_.bind(binding.state, plain);
    }
  }

  Lowering& lowering_;
  const PassContext& context_;
  Graph& graph_;
  RegionSpec& region_;
  Node* behind_;
  std::vector<Node*> order_;
  std::unordered_set<const Node*> inside_;
  std::map<std::pair<Value*, bool>, Value*> reordered_;
};

}  // namespace

void assign_layouts(Lowering& lowering, const PassContext& context) {
  if (context.options.lanes == 0 || context.target->device() != ops::Device::kCpu) return;
  const bool everywhere = context.options.lanes == 16;
  for (size_t i = 0; i < lowering.regions.size(); ++i) {
    RegionSpec& region = lowering.regions[i];
    const bool blocked = region.block_rows > 0 && region.block_rows % 16 == 0;
    if (!blocked && !(everywhere && region.block_rows == 0)) continue;
    Node* behind =
        i + 1 < lowering.regions.size() ? lowering.regions[i + 1].nodes.front() : nullptr;
    LayoutAssigner(lowering, context, region, behind).run();
  }
}

}  // namespace sardonyx::passes
