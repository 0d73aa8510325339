// recompute (rematerialisation): what the backward pass reads long after the forward pass did is
// computed again right before, instead of kept in memory all the time.
//
// By default only what is cheap (OpDef::cheap), from values that are alive at that time anyway, and
// as much of it as costs a small share of the step. RecomputeOptions::rung asks for more:
// drop_chain says what goes next. Only pure operators: what is random or stateful is never run
// twice. A value is computed again at most once, so the result has the same bits.
#include <algorithm>
#include <unordered_map>

#include "graph/names.h"
#include "passes/drop_chain.h"
#include "passes/pass.h"

namespace sardonyx::passes {

namespace {

using graph::Graph;
using graph::Node;
using graph::Value;

class Rewriter {
 public:
  Rewriter(Graph& graph, const DropChain& chain) : graph_(graph), chain_(chain) {}

  // Drops come in the order of the forward pass: what a copy reads was copied before.
  void drop(const DropChain::Drop& drop) {
    Value* again = copy_before(*drop.value->producer, drop.before);
    const std::vector<graph::Use> uses = drop.value->uses();
    for (const graph::Use& use : uses) {
      if (chain_.is_backward(use.node)) graph_.set_input(use.node, use.index, again);
    }
    again_[drop.value] = again;
  }

 private:
  Value* copy_before(const Node& node, Node* before) {
    std::vector<Value*> inputs = node.inputs();
    for (Value*& input : inputs) {
      if (const auto it = again_.find(input); it != again_.end()) input = it->second;
    }
    const Value* value = node.output(0);
    Node* copy = graph_.add_node(node.domain, node.op, inputs,
                                 {graph::fresh_name(graph_, value->name + "/again")}, before);
    copy->name = node.name;
    copy->attributes = node.attributes;
    copy->output(0)->type = value->type;
    return copy->output(0);
  }

  Graph& graph_;
  const DropChain& chain_;
  std::unordered_map<const Value*, Value*> again_;
};

}  // namespace

bool recompute(Graph& graph, PassContext& context) {
  const DropChain chain = DropChain::lowest(graph, context.options.recompute);
  const auto last = static_cast<int>(chain.rungs().size()) - 1;
  const DropChain::Rung& rung = chain.rungs()[std::clamp(context.options.recompute.rung, 0, last)];
  const std::vector<DropChain::Drop> drops = chain.drops(rung);
  Recomputed& told = context.recomputed;
  told.results = static_cast<int64_t>(drops.size());
  told.saved_bytes = chain.kept_bytes() - rung.bytes;
  if (chain.step_work() > 0) told.work = rung.work / chain.step_work();
  for (const DropChain::Rung& each : chain.rungs()) told.rungs.push_back(each.bytes);
  if (drops.empty()) return false;
  Rewriter rewriter(graph, chain);
  for (const DropChain::Drop& drop : drops) rewriter.drop(drop);
  context.remarks.push_back(
      fmt::format("{} result{} computed again instead of kept: saves {:.1f} MiB", told.results,
                  told.results == 1 ? "" : "s", static_cast<double>(told.saved_bytes) / (1 << 20)));
  return true;
}

}  // namespace sardonyx::passes
