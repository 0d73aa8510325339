// apply_mode: the trainer's switch, not the file, decides what Dropout and BatchNormalization
// compute. Each room rewrites its own nodes (OpDef::apply_mode); those that consist of others
// (ops/core/composed.h) become these here. Running statistics are bound to their next values here;
// accumulate_gradients, insert_all_reduce and append_optimizer carry them on.
#include <algorithm>
#include <unordered_map>

#include "graph/support/error.h"
#include "ops/core/mode.h"
#include "passes/node_notices.h"
#include "passes/pass.h"

namespace sardonyx::passes {

namespace {

using graph::Graph;
using graph::Node;
using graph::Value;
using ops::ModeContext;

class ModeApplier {
 public:
  ModeApplier(Graph& graph, PassContext& context) : graph_(graph), context_(context) {
    for (const ParameterRow& row : context.parameters) frozen_.emplace(row.name, row.frozen);
  }

  bool run() {
    const std::vector<Node*> nodes = nodes_with_modes();
    for (Node* node : nodes) {
      context_.collect_fault(*node, [&] {
        with_context([&] { return "applying the mode to node " + node->label(); },
                     [&] { apply(*node); });
      });
    }
    notices_.tell(context_);
    return !nodes.empty();
  }

 private:
  std::vector<Node*> nodes_with_modes() const {
    std::vector<Node*> nodes;
    for (Node& node : graph_.nodes()) {
      const ops::OpDef* op = ops::OpRegistry::get().find(node);
      // What has no type stands behind a node that can't be run.
      if (op == nullptr || !op->apply_mode || node.output(0) == nullptr) continue;
      if (node.output(0)->type.dtype != graph::DType::kUndefined) nodes.push_back(&node);
    }
    return nodes;
  }

  void apply(Node& node) {
    const PipelineOptions& options = context_.options;
    ops::ModeSurroundings around;
    around.frozen = [&](const Value* value) { return is_frozen(value); };
    around.update = [&](Value* state, Value* next) { update(node, state, next); };
    around.notice = [&](const std::string& line) { notices_.add(node, line); };
    around.require_rows = [&](int64_t rows) {
      context_.least_rows = std::max(context_.least_rows, rows);
    };
    if (options.sample_variance) {
      around.stored_variance = ops::StoredVariance::kSample;
    }
    if (shares_statistics(options)) around.statistics_of = ops::StatisticsOf::kAllReplicas;
    const auto dropout =
        options.dropout ? ModeContext::Dropout::kActive : ModeContext::Dropout::kOff;
    ModeContext mode(node, options.mode == Mode::kTrain, dropout, options.respect_training_mode,
                     std::move(around));
    ops::OpRegistry::get().at(node).apply_mode(mode);
  }

  // All tensors of the file that the value is computed from are frozen, and there is one. Kept for
  // every value on the way: branches that meet again would double the work each time.
  bool is_frozen(const Value* value) {
    if (value == nullptr) return false;
    if (const auto row = frozen_.find(value->name); row != frozen_.end()) return row->second;
    if (value->producer == nullptr) return false;
    const auto& inputs = value->producer->inputs();
    const auto of_file = [&](const Value* v) {
      return v != nullptr && (v->producer != nullptr || frozen_.contains(v->name));
    };
    const bool frozen = std::any_of(inputs.begin(), inputs.end(), of_file) &&
                        std::all_of(inputs.begin(), inputs.end(),
                                    [&](const Value* v) { return !of_file(v) || is_frozen(v); });
    frozen_.emplace(value->name, frozen);
    return frozen;
  }

  void update(const Node& node, Value* state, Value* next) {
    if (!context_.options.update_statistics || !state->is_state()) return;
    if (graph_.bound(state) != nullptr) {
      throw Error("'{}' is a running statistic of {} and of another node, too", state->name,
                  node.label());
    }
    graph_.bind(state, next);
    context_.statistics.emplace_back(state->name, next->name);
  }

  Graph& graph_;
  PassContext& context_;
  NodeNotices notices_;
  std::unordered_map<std::string, bool> frozen_;
};

}  // namespace

bool apply_mode(Graph& graph, PassContext& context) { return ModeApplier(graph, context).run(); }

}  // namespace sardonyx::passes
