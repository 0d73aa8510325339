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
bool can_add(const Graph& graph, const Value* gradient, int accumulators) {
  const Node* node = gradient->producer;
  if (node == nullptr || gradient->slot != 0 || !gradient->uses().empty()) return false;
  if (accumulators > 1 || graph.is_output(gradient)) return false;
  const ops::OpDef& op = ops::OpRegistry::get().at(*node);
  return op.accumulate_input >= 0 && node->input(op.accumulate_input) == nullptr;
}

// The value acc + gradient. `accumulators`: how many take this gradient.
Value* added(Graph& graph, Value* acc, Value* gradient, int accumulators) {
  if (can_add(graph, gradient, accumulators)) {
    Node* node = gradient->producer;
    graph.set_input(node, ops::OpRegistry::get().at(*node).accumulate_input, acc);
    ops::infer_node(*node);
    return gradient;
  }
  ops::OpBuilder b(graph, node_behind(graph, {gradient}));
  return b.own("Accumulate", {acc, gradient}, {}, acc->name + "'");
}

// Without samples the accumulator is taken as it is, unless it has to begin.
std::string accumulate(Graph& graph, MicroBatch micro_batch, const std::string& name,
                       const std::string& what, int accumulators) {
  Value* value = graph.find(name);
  CHECK(value != nullptr, "there is no value '{}' to accumulate", name);
  graph::TensorType type = value->type;
  Value* acc = graph.add_state("acc/" + what, type, graph::StateRole::kAccumulator);
  if (!begins_step(micro_batch) && !has_samples(micro_batch)) return acc->name;
  Value* next = begins_step(micro_batch) ? value : added(graph, acc, value, accumulators);
  graph.bind(acc, next);
  return next->name;
}

// Statistics move on every micro-batch: later ones start from where the one before has left them.
void move_on(Graph& graph, MicroBatch micro_batch, Value* state, Value* next) {
  Value* acc = graph.add_state("acc/" + state->name, state->type, graph::StateRole::kAccumulator);
  graph.unbind(state);
  graph.bind(acc, next);
  if (begins_step(micro_batch)) return;
  Node* node = next->producer;
  for (int i = 0; i < node->num_inputs(); ++i) {
    if (node->input(i) == state) graph.set_input(node, i, acc);
  }
}

void replace_by_zeros(Graph& graph, std::string& name) {
  name = no_part(graph.find(name), graph)->name;
}

void accumulate_statistics(Graph& graph, PassContext& context) {
  const MicroBatch micro_batch = context.options.micro_batch;
  const bool whole_step = begins_step(micro_batch) && ends_step(micro_batch);
  bool averaged = false;
  for (auto& [state, next] : context.statistics) {
    const bool shared = context.shared_statistics.states.contains(state);
    averaged |= !shared;
    if (has_samples(micro_batch) || shared) {
      if (!whole_step) move_on(graph, micro_batch, graph.find(state), graph.find(next));
      continue;
    }
    graph.unbind(graph.find(state));
    if (begins_step(micro_batch)) replace_by_zeros(graph, next);
    if (!whole_step) next = accumulate(graph, micro_batch, next, state, 1);
  }
  if (!averaged || context.options.reduce.replicas < 2) return;
  // Counted once per step: later micro-batches add nothing.
  const bool counts = begins_step(micro_batch) && has_samples(micro_batch);
  ops::OpBuilder b(graph);
  std::string& count = context.replicas_with_samples;
  count = b.constant(graph::Tensor::scalar<float>(counts ? 1 : 0).cast(context.options.dtype),
                     "replicas")
              ->name;
  if (whole_step) return;
  count = accumulate(graph, micro_batch, count, "replicas", 1);
}

}  // namespace

bool accumulate_gradients(Graph& graph, PassContext& context) {
  const MicroBatch micro_batch = context.options.micro_batch;
  if (micro_batch == MicroBatch::kOnly) {
    accumulate_statistics(graph, context);
    return !context.statistics.empty();
  }
  const auto take_part = [&](std::string& name, std::string what, int accumulators) {
    if (!has_samples(micro_batch) && begins_step(micro_batch)) replace_by_zeros(graph, name);
    if (micro_batch == MicroBatch::kNone) return;
    name = accumulate(graph, micro_batch, name, what, accumulators);
  };
  std::map<std::string, int> accumulators;
  for (const auto& [parameter, gradient] : context.gradients) ++accumulators[gradient];
  for (auto& [parameter, gradient] : context.gradients) {
    take_part(gradient, parameter, accumulators[gradient]);
  }
  graph.clear_outputs();
  for (std::string* sum : context.sums()) {
    take_part(*sum, *sum, 1);
    graph.add_output(graph.find(*sum));
  }
  accumulate_statistics(graph, context);
  // Nothing else may need what the replica takes part in.
  if (!has_samples(micro_batch) && !ends_step(micro_batch) && context.shared_statistics.any()) {
    graph.add_output(graph.find(context.shared_statistics.sums.back()));
  }
  return true;
}

}  // namespace sardonyx::passes
