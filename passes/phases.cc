#include "passes/phases.h"

#include <algorithm>
#include <unordered_map>

#include "ops/core/op.h"

namespace sardonyx::passes {

namespace {

using graph::Node;
using graph::Value;

struct Facts {
  bool gradient = false;        // made by a gradient rule, or of what such a node has made
  bool feeds_gradient = false;  // a gradient rule's node is among its readers' readers
  bool sum = false;
};

class Finder {
 public:
  explicit Finder(const graph::Graph& graph) : graph_(graph) {}

  std::vector<Phase> run() {
    for (const Node& node : graph_.nodes()) look_back(node);
    for (auto node = graph_.nodes().rbegin(); node != graph_.nodes().rend(); ++node) {
      look_ahead(*node);
    }
    std::vector<Phase> found;
    bool behind = false;  // the first node of the backward pass
    for (const Node& node : graph_.nodes()) {
      behind |= !node.forward_node.empty();
      found.push_back(phase_of(node, behind));
    }
    return found;
  }

 private:
  void look_back(const Node& node) {
    Facts& facts = facts_[&node];
    facts.gradient = !node.forward_node.empty();
    for (const Value* value : node.inputs()) {
      if (value == nullptr || value->producer == nullptr) continue;
      facts.gradient |= facts_.at(value->producer).gradient;
    }
    facts.sum = sums(node);
  }

  // A bucket, what happens to it as a whole, and the views that take it apart. What overwrites such
  // a view has another purpose.
  bool sums(const Node& node) const {
    const ops::OpDef* op = ops::OpRegistry::get().find(node);
    if (op == nullptr) return false;
    if (op->joins_at) return true;
    const Value* first = node.input(0);
    if (first == nullptr || first->producer == nullptr || !facts_.at(first->producer).sum) {
      return false;
    }
    const auto whole = [](const Node& maker) { return !ops::OpRegistry::get().at(maker).view; };
    return op->view || (!ops::aliases_of(node).empty() && whole(*first->producer));
  }

  void look_ahead(const Node& node) {
    Facts& facts = facts_.at(&node);
    for (const Value* value : node.outputs()) {
      if (value == nullptr) continue;
      facts.feeds_gradient |= std::ranges::any_of(value->uses(), [&](const graph::Use& use) {
        return !use.node->forward_node.empty() || facts_.at(use.node).feeds_gradient;
      });
    }
  }

  Phase phase_of(const Node& node, bool behind) const {
    const Facts& facts = facts_.at(&node);
    if (facts.sum) return Phase::kSum;
    if (!node.forward_node.empty()) return Phase::kBackward;
    if (!behind) return Phase::kForward;
    if (!facts.feeds_gradient) return Phase::kUpdate;
    return facts.gradient ? Phase::kBackward : Phase::kAgain;
  }

  const graph::Graph& graph_;
  std::unordered_map<const Node*, Facts> facts_;
};

}  // namespace

std::string_view phase_name(Phase phase) {
  static constexpr std::string_view kNames[] = {"forward", "again", "backward", "sum", "update"};
  return kNames[static_cast<int>(phase)];
}

std::vector<Phase> phases(const graph::Graph& graph) { return Finder(graph).run(); }

}  // namespace sardonyx::passes
