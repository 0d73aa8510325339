#include "passes/kept_values.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ops/core/kernel.h"
#include "passes/arena.h"
#include "passes/node_facts.h"
#include "passes/requests.h"

namespace sardonyx::passes {

namespace {

using graph::Graph;
using graph::Node;
using graph::Value;

// A pass over memory takes about as long as this many operations of a convolution per byte.
constexpr double kOperationsPerByte = 8;

int64_t bytes_of(const Value& value) {
  return value.type.is_static() ? static_cast<int64_t>(align_up(value.type.bytes())) : 0;
}

const ops::OpDef& op_of(const Node& node) { return ops::OpRegistry::get().at(node); }

class Finder {
 public:
  Finder(Graph& graph, const RecomputeOptions& options) : graph_(graph), options_(options) {}

  KeptValues run() {
    for (Node& node : graph_.nodes()) {
      const int at = static_cast<int>(found_.nodes.size());
      if (found_.backward == kNever && !node.forward_node.empty()) found_.backward = at;
      found_.position[&node] = at;
      found_.nodes.push_back(&node);
    }
    find_ends();
    find_results();
    for (Node* node : found_.nodes) {
      const double operations = operations_of(*node), work = operations + passes_of(*node);
      found_.operations += operations;
      found_.work += work;
      if (found_.position.at(node) < found_.backward && can_run_twice(*node))
        add_candidate(*node, work);
    }
    find_curve();
    return std::move(found_);
  }

 private:
  int end() const { return static_cast<int>(found_.nodes.size()); }

  void find_ends() {
    for (const Value* value : graph_.outputs()) outliving_.insert(value);
    for (const graph::Binding& binding : graph_.bindings()) {
      outliving_.insert(binding.next);
      of_states_.insert(binding.next);
    }
    for (const Node* node : found_.nodes) {
      for (const auto& [out, in] : ops::aliases_of(*node)) {
        of_states_.insert(node->output(out));
        if (node->input(in) != nullptr)
          overwritten_.emplace(viewed(node->input(in)), found_.position.at(node));
      }
    }
  }

  int last_use(const Value& value) const {
    if (outliving_.contains(&value)) return end();
    int last = value.producer == nullptr ? 0 : found_.position.at(value.producer);
    for (const graph::Use& use : value.uses()) last = std::max(last, found_.position.at(use.node));
    return last;
  }

  void find_results() {
    for (const Value& value : graph_.values()) {
      const Value* root = viewed(&value);
      if (root->kind != graph::ValueKind::kResult) continue;
      const auto [it, is_new] = result_of_.emplace(root, static_cast<int>(found_.results.size()));
      if (is_new) {
        KeptResult& result = found_.results.emplace_back();
        result.made = found_.position.at(root->producer);
        result.bytes = of_states_.contains(root) ? 0 : bytes_of(*root);
      }
      KeptResult& result = found_.results[static_cast<size_t>(it->second)];
      result.last_use = std::max({result.last_use, result.made, last_use(value)});
    }
  }

  bool can_run_twice(const Node& node) const {
    const ops::OpDef& op = op_of(node);
    const Value* value = node.output(0);
    if (!op.pure || op.view || op.joins_at || value == nullptr || node.num_outputs() != 1) {
      return false;
    }
    if (!ops::carries_batch(graph_, value) || outliving_.contains(value)) return false;
    const bool is_viewed = std::ranges::any_of(
        value->uses(), [](const graph::Use& use) { return op_of(*use.node).view; });
    return !is_viewed && ops::aliases_of(node).empty() && bytes_of(*value) > 0;
  }

  void add_candidate(Node& node, double work) {
    const int index = static_cast<int>(found_.candidates.size());
    DropCandidate candidate;
    candidate.value = node.output(0);
    candidate.result = result_of_.at(candidate.value);
    candidate.last_forward = found_.position.at(&node);
    candidate.work = work;
    candidate.cheap = op_of(node).cheap;
    for (const graph::Use& use : candidate.value->uses()) {
      const int at = found_.position.at(use.node);
      int& end = at < found_.backward ? candidate.last_forward : candidate.first_backward;
      end = at < found_.backward ? std::max(end, at) : std::min(end, at);
    }
    for (const Value* input : node.inputs()) {
      if (input == nullptr) continue;
      const Value* root = viewed(input);
      if (const auto it = overwritten_.find(root); it != overwritten_.end()) {
        candidate.overwritten = std::min(candidate.overwritten, it->second);
      }
      const auto result = result_of_.find(root);
      if (result == result_of_.end()) continue;
      auto& operands = candidate.operands;
      if (std::ranges::find(operands, result->second) != operands.end()) continue;
      operands.push_back(result->second);
      found_.results[static_cast<size_t>(result->second)].readers.push_back(index);
    }
    found_.results[static_cast<size_t>(candidate.result)].candidate = index;
    found_.candidates.push_back(std::move(candidate));
  }

  double operations_of(const Node& node) const {
    const ops::OpDef& op = op_of(node);
    return op.flops && has_sizes(node) ? op.flops(request_for(graph_, node, 0)) : 0.0;
  }

  static bool has_sizes(const Node& node) {
    const auto open = [](const Value* value) {
      return value != nullptr && !value->type.is_static();
    };
    return std::ranges::none_of(node.inputs(), open) && std::ranges::none_of(node.outputs(), open);
  }

  // Over memory.
  static double passes_of(const Node& node) {
    int64_t bytes = 0;
    for (const auto* values : {&node.inputs(), &node.outputs()}) {
      for (const Value* value : *values) {
        if (value != nullptr) bytes += bytes_of(*value);
      }
    }
    return kOperationsPerByte * static_cast<double>(bytes);
  }

  void find_curve() {
    std::vector<int64_t>& alive = found_.alive;
    alive.assign(found_.nodes.size() + 1, 0);
    if (!options_.alive.empty()) {
      for (size_t i = 0; i < found_.nodes.size(); ++i) {
        const Value* first = found_.nodes[i]->output(0);
        const auto it = first == nullptr ? options_.alive.end() : options_.alive.find(first->name);
        if (it != options_.alive.end()) alive[i] = it->second;
      }
      return;
    }
    for (const KeptResult& result : found_.results) {
      alive[static_cast<size_t>(result.made)] += result.bytes;
      const auto behind = static_cast<size_t>(result.last_use) + 1;
      if (behind < alive.size()) alive[behind] -= result.bytes;
    }
    for (size_t i = 1; i < alive.size(); ++i) alive[i] += alive[i - 1];
  }

  Graph& graph_;
  const RecomputeOptions& options_;
  KeptValues found_;
  std::unordered_map<const Value*, int> result_of_;
  std::unordered_set<const Value*> outliving_;
  std::unordered_set<const Value*> of_states_;         // their bytes are the states'
  std::unordered_map<const Value*, int> overwritten_;  // and when
};

}  // namespace

KeptValues kept_values(Graph& graph, const RecomputeOptions& options) {
  return Finder(graph, options).run();
}

}  // namespace sardonyx::passes
