// accumulate_gradients: gradients (and the sums that the loss reports) of several micro-batches are
// added up in accumulator states "acc/NAME". The first micro-batch overwrites, later ones add:
// nothing is ever zeroed.
//
// A replica without samples has nothing to add: what it would add up is zero, and the forward and
// backward nodes, which nothing needs any more, go with eliminate_dead. Shared statistics
// (sync_statistics) it moves like all others.
//
// Where the operator that makes a gradient can add to what is there (OpDef::accumulate_input), it
// does; elsewhere an Accumulate node follows right behind: the gradient is still in the cache then,
// and need not live on.
#include <map>

#include "graph/support/error.h"
#include "ops/core/infer.h"
#include "ops/core/op_builder.h"
#include "passes/node_facts.h"
#include "passes/pass.h"
#include "passes/replica_sum.h"

namespace sardonyx::passes {

namespace {

using graph::Graph;
using graph::Node;
using graph::Value;

// The operator may add into the accumulator when nobody else takes its result: no node, no other
// accumulator (the biases of two branches that are added have one gradient), no output.
bool can_add(const Graph& graph, const Value* gradient, int takers) {
  const Node* node = gradient->producer;
  if (node == nullptr || gradient->slot != 0 || !gradient->uses().empty()) return false;
  if (takers > 1 || graph.is_output(gradient)) return false;
  const ops::OpDef& op = ops::OpRegistry::get().at(*node);
  return op.accumulate_input >= 0 && node->input(op.accumulate_input) == nullptr;
}

class Accumulators {
 public:
  Accumulators(Graph& graph, PassContext& context)
      : graph_(graph),
        context_(context),
        micro_batch_(context.options.micro_batch),
        order_(graph) {}

  void run() {
    if (micro_batch_ != MicroBatch::kOnly) add_up();
    move_statistics();
    // Nothing else may need what the replica takes part in.
    if (!has_samples(micro_batch_) && !ends_step(micro_batch_) &&
        context_.shared_statistics.any()) {
      graph_.add_output(graph_.find(context_.shared_statistics.sums.back()));
    }
  }

 private:
  // Gradients, then sums.
  void add_up() {
    std::map<std::string, int> takers;
    for (const auto& [parameter, gradient] : context_.gradients) ++takers[gradient];
    for (auto& [parameter, gradient] : context_.gradients) {
      take_part(gradient, parameter, takers[gradient]);
    }
    graph_.clear_outputs();
    for (std::string* sum : context_.sums()) {
      take_part(*sum, *sum, 1);
      graph_.add_output(graph_.find(*sum));
    }
  }

  void take_part(std::string& name, std::string what, int takers) {
    if (!has_samples(micro_batch_) && begins_step(micro_batch_)) replace_by_zeros(name);
    if (micro_batch_ != MicroBatch::kNone) name = accumulate(name, what, takers);
  }

  // The value acc + gradient. `takers`: how many accumulators take this gradient.
  Value* added(Value* acc, Value* gradient, int takers) {
    if (can_add(graph_, gradient, takers)) {
      Node* node = gradient->producer;
      graph_.set_input(node, ops::OpRegistry::get().at(*node).accumulate_input, acc);
      ops::infer_node(*node);
      return gradient;
    }
    ops::OpBuilder b(graph_, order_.behind({gradient}));
    Value* sum = b.own("Accumulate", {acc, gradient}, {}, acc->name + "'");
    order_.put(sum->producer, {gradient});
    return sum;
  }

  // Without samples the accumulator is taken as it is, unless it has to begin.
  std::string accumulate(const std::string& name, const std::string& what, int takers) {
    Value* value = graph_.find(name);
    CHECK(value != nullptr, "there is no value '{}' to accumulate", name);
    Value* acc = graph_.add_state("acc/" + what, value->type, graph::StateRole::kAccumulator);
    if (!begins_step(micro_batch_) && !has_samples(micro_batch_)) return acc->name;
    Value* next = begins_step(micro_batch_) ? value : added(acc, value, takers);
    graph_.bind(acc, next);
    return next->name;
  }

  // Statistics move on every micro-batch: later ones start from where the one before has left them.
  void move_on(Value* state, Value* next) {
    Value* acc =
        graph_.add_state("acc/" + state->name, state->type, graph::StateRole::kAccumulator);
    graph_.unbind(state);
    graph_.bind(acc, next);
    if (begins_step(micro_batch_)) return;
    Node* node = next->producer;
    for (int i = 0; i < node->num_inputs(); ++i) {
      if (node->input(i) == state) graph_.set_input(node, i, acc);
    }
  }

  void replace_by_zeros(std::string& name) { name = no_part(graph_.find(name), graph_)->name; }

  bool is_whole_step() const { return begins_step(micro_batch_) && ends_step(micro_batch_); }

  void move_statistics() {
    bool averaged = false;
    for (auto& [state, next] : context_.statistics) {
      const bool shared = context_.shared_statistics.states.contains(state);
      averaged |= !shared;
      if (has_samples(micro_batch_) || shared) {
        if (!is_whole_step()) move_on(graph_.find(state), graph_.find(next));
        continue;
      }
      graph_.unbind(graph_.find(state));
      if (begins_step(micro_batch_)) replace_by_zeros(next);
      if (!is_whole_step()) next = accumulate(next, state, 1);
    }
    if (averaged && context_.options.reduce.replicas > 1) count_replicas();
  }

  // Counted once per step: later micro-batches add nothing.
  void count_replicas() {
    const bool counts = begins_step(micro_batch_) && has_samples(micro_batch_);
    const graph::Tensor number = graph::Tensor::scalar<float>(counts ? 1 : 0);
    std::string& count = context_.replicas_with_samples;
    count = ops::OpBuilder(graph_).constant(number.cast(context_.options.dtype), "replicas")->name;
    if (!is_whole_step()) count = accumulate(count, "replicas", 1);
  }

  Graph& graph_;
  PassContext& context_;
  const MicroBatch micro_batch_;
  NodeOrder order_;
};

}  // namespace

bool accumulate_gradients(Graph& graph, PassContext& context) {
  Accumulators(graph, context).run();
  return context.options.micro_batch != MicroBatch::kOnly || !context.statistics.empty();
}

}  // namespace sardonyx::passes
