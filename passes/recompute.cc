// recompute (rematerialisation): what the backward pass reads long after the forward pass did is
// computed again right before, instead of kept in memory all the time.
//
// By default only what is cheap (OpDef::cheap), from values that are alive at that time anyway, and
// as much of it as costs a small share of the step. Where a limit is set, whatever saves most for
// its cost, until the estimate of what is alive at once falls below it. Only pure operators: what
// is random or stateful is never run twice. A value is computed again at most once, so the result
// has the same bits.
#include <algorithm>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "graph/names.h"
#include "ops/core/kernel.h"
#include "passes/arena.h"
#include "passes/node_facts.h"
#include "passes/pass.h"
#include "passes/requests.h"

namespace sardonyx::passes {

namespace {

using graph::Graph;
using graph::Node;
using graph::Value;

// A pass over memory takes about as long as this many operations of a convolution per byte.
constexpr double kOperationsPerByte = 8;
constexpr int kNever = std::numeric_limits<int>::max();

int64_t bytes_of(const Value& value) {
  return value.type.is_static() ? static_cast<int64_t>(align_up(value.type.bytes())) : 0;
}

const ops::OpDef& op_of(const Node& node) { return ops::OpRegistry::get().at(node); }

struct Candidate {
  Value* value = nullptr;
  int made = 0, last_forward = 0, first_backward = kNever;
  double cost = 0;  // in operations
  bool dropped = false, refused = false;
};

struct Estimate {
  int64_t bytes = 0;
  int time = 0;
};

using Lifetimes = std::unordered_map<const Value*, int>;  // last use

// What follows from the values that are dropped so far.
struct Picture {
  std::vector<int> again;  // when each candidate would be computed again
  Lifetimes last;
};

class Recomputer {
 public:
  Recomputer(Graph& graph, PassContext& context)
      : graph_(graph), context_(context), options_(context.options.recompute) {}

  bool run() {
    for (Node& node : graph_.nodes()) {
      if (backward_ == kNever && !node.forward_node.empty()) {
        backward_ = static_cast<int>(nodes_.size());
      }
      position_[&node] = static_cast<int>(nodes_.size());
      nodes_.push_back(&node);
    }
    find_lifetimes();
    find_candidates();
    const Estimate kept = estimate();
    drop_cheap();
    if (options_.most_bytes > 0) drop_until(options_.most_bytes);
    const Estimate reached = estimate();
    context_.live_bytes = reached.bytes;
    const int count = rewrite();
    if (count == 0) return false;
    context_.remarks.push_back(fmt::format(
        "{} result{} computed again instead of kept: saves {:.1f} MiB", count,
        count == 1 ? "" : "s", static_cast<double>(kept.bytes - reached.bytes) / (1 << 20)));
    return true;
  }

 private:
  // --- what there is

  int last_use(const Value& value) const {
    int last = value.producer == nullptr ? 0 : position_.at(value.producer);
    for (const graph::Use& use : value.uses()) last = std::max(last, position_.at(use.node));
    return outlives_plan(graph_, &value) ? static_cast<int>(nodes_.size()) : last;
  }

  void find_lifetimes() {
    for (const Value& value : graph_.values()) {
      const Value* root = viewed(&value);
      if (root->kind == graph::ValueKind::kResult) {
        last_[root] = std::max(last_[root], last_use(value));
      }
    }
    for (const Node* node : nodes_) {
      for (const auto& [out, in] : ops::aliases_of(*node)) {
        overwritten_.emplace(node->input(in), position_.at(node));
        of_states_.insert(node->output(out));
      }
    }
    for (const graph::Binding& binding : graph_.bindings()) of_states_.insert(binding.next);
  }

  void find_candidates() {
    for (Node* node : nodes_) {
      if (position_.at(node) >= backward_ || !can_run_twice(*node)) continue;
      Candidate candidate{node->output(0), position_.at(node), position_.at(node)};
      for (const graph::Use& use : candidate.value->uses()) {
        const int at = position_.at(use.node);
        if (at < backward_) candidate.last_forward = std::max(candidate.last_forward, at);
        if (at >= backward_) candidate.first_backward = std::min(candidate.first_backward, at);
      }
      if (candidate.first_backward == kNever || !keeps_inputs(*node, candidate.first_backward)) {
        continue;
      }
      candidate.cost = cost_of(*node);
      index_[candidate.value] = candidates_.size();
      candidates_.push_back(candidate);
    }
  }

  bool can_run_twice(const Node& node) const {
    const ops::OpDef& op = op_of(node);
    const Value* value = node.output(0);
    if (!op.pure || op.view || op.joins_at || value == nullptr || node.num_outputs() != 1) {
      return false;
    }
    if (!ops::carries_batch(graph_, value) || outlives_plan(graph_, value)) return false;
    const bool is_viewed = std::any_of(value->uses().begin(), value->uses().end(),
                                       [](const graph::Use& use) { return op_of(*use.node).view; });
    return !is_viewed && ops::aliases_of(node).empty();
  }

  // No input is a parameter that is updated before that time.
  bool keeps_inputs(const Node& node, int time) const {
    return std::none_of(node.inputs().begin(), node.inputs().end(), [&](const Value* input) {
      const auto it = overwritten_.find(input);
      return it != overwritten_.end() && it->second < time;
    });
  }

  double operations_of(const Node& node) const {
    const ops::OpDef& op = op_of(node);
    return op.flops ? op.flops(request_for(graph_, node, 0)) : 0.0;
  }

  double cost_of(const Node& node) const {
    double bytes = 0;
    for (const auto* values : {&node.inputs(), &node.outputs()}) {
      for (const Value* value : *values) {
        if (value != nullptr) bytes += static_cast<double>(bytes_of(*value));
      }
    }
    return operations_of(node) + kOperationsPerByte * bytes;
  }

  // --- what is alive

  Picture picture() const {
    Picture picture{times_again(), last_};
    for (size_t i = 0; i < candidates_.size(); ++i) {
      if (!candidates_[i].dropped) continue;
      for (const Value* input : candidates_[i].value->producer->inputs()) {
        const auto it = input == nullptr ? picture.last.end() : picture.last.find(viewed(input));
        if (it != picture.last.end()) it->second = std::max(it->second, picture.again[i]);
      }
    }
    return picture;
  }

  // Before the first reader of the backward pass, which may be another value that is computed
  // again. Users stand behind what they use.
  std::vector<int> times_again() const {
    std::vector<int> times(candidates_.size(), kNever);
    for (size_t i = candidates_.size(); i-- > 0;) {
      times[i] = candidates_[i].first_backward;
      for (const graph::Use& use : candidates_[i].value->uses()) {
        const auto user = index_.find(use.node->output(0));
        if (user == index_.end() || !candidates_[user->second].dropped) continue;
        times[i] = std::min(times[i], times[user->second]);
      }
    }
    return times;
  }

  bool is_dropped(const Value* value) const {
    const auto it = index_.find(value);
    return it != index_.end() && candidates_[it->second].dropped;
  }

  // Bytes alive at each node; what states will hold is written there.
  std::vector<int64_t> curve(const Picture& picture) const {
    std::vector<int64_t> change(nodes_.size() + 2);
    const auto live = [&](int from, int to, int64_t bytes) {
      change[static_cast<size_t>(from)] += bytes;
      change[static_cast<size_t>(to) + 1] -= bytes;
    };
    for (const auto& [value, last] : picture.last) {
      if (of_states_.contains(value)) continue;
      const int made = position_.at(value->producer);
      if (is_dropped(value)) {
        const size_t index = index_.at(value);
        live(made, candidates_[index].last_forward, bytes_of(*value));
        live(picture.again[index], last, bytes_of(*value));
      } else {
        live(made, last, bytes_of(*value));
      }
    }
    for (size_t i = 0; !options_.workspaces.empty() && i < nodes_.size(); ++i) {
      const Value* first = nodes_[i]->output(0);
      if (first == nullptr) continue;
      const auto workspace = options_.workspaces.find(first->name);
      const int at = static_cast<int>(i);
      if (workspace != options_.workspaces.end()) live(at, at, workspace->second);
    }
    for (size_t i = 1; i < change.size(); ++i) change[i] += change[i - 1];
    return change;
  }

  Estimate estimate() const { return estimate(picture()); }
  Estimate estimate(const Picture& picture) const {
    const std::vector<int64_t> bytes = curve(picture);
    const auto most = std::max_element(bytes.begin(), bytes.end());
    return {*most, static_cast<int>(most - bytes.begin())};
  }

  // --- what is dropped

  double step_operations() const {
    double sum = 0;
    for (const Node* node : nodes_) sum += operations_of(*node);
    return sum;
  }

  // All operands are there when it is computed again, or small.
  bool inputs_live_on(size_t index, const Picture& picture) const {
    const Value* value = candidates_[index].value;
    const int time = picture.again[index];
    for (const Value* input : value->producer->inputs()) {
      if (input == nullptr || viewed(input)->kind != graph::ValueKind::kResult) continue;
      const Value* root = viewed(input);
      if (16 * bytes_of(*root) <= bytes_of(*value)) continue;
      if (picture.last.at(root) < time) return false;
      if (is_dropped(root) && picture.again[index_.at(root)] > time) return false;
    }
    return true;
  }

  // The candidate that saves most for its cost among those that are alive, but not used, at the
  // worst moment; nullptr: there is none.
  template <class F>
  Candidate* best(F&& allowed) {
    const Picture now = picture();
    const int time = estimate(now).time;
    Candidate* best = nullptr;
    double best_worth = 0;
    for (size_t i = 0; i < candidates_.size(); ++i) {
      Candidate& candidate = candidates_[i];
      if (candidate.dropped || candidate.refused) continue;
      if (candidate.last_forward >= time || now.again[i] <= time || !allowed(i, now)) continue;
      const double worth = static_cast<double>(bytes_of(*candidate.value)) / candidate.cost;
      if (worth <= best_worth) continue;
      best = &candidate;
      best_worth = worth;
    }
    return best;
  }

  void drop_cheap() {
    double left = options_.cost * step_operations();
    const auto allowed = [&](size_t i, const Picture& now) {
      return op_of(*candidates_[i].value->producer).cheap && candidates_[i].cost <= left &&
             inputs_live_on(i, now);
    };
    while (Candidate* candidate = best(allowed)) {
      candidate->dropped = true;
      left -= candidate->cost;
    }
  }

  void drop_until(int64_t most) {
    const auto allowed = [](size_t, const Picture&) { return true; };
    for (int64_t bytes = estimate().bytes; bytes > most; bytes = estimate().bytes) {
      Candidate* candidate = best(allowed);
      if (candidate == nullptr) return;
      candidate->dropped = true;
      if (estimate().bytes <= bytes) continue;
      candidate->dropped = false;
      candidate->refused = true;
    }
  }

  // --- the graph

  // Returns how many values are computed again.
  int rewrite() {
    const std::vector<int> times = times_again();
    int count = 0;
    // In the order of the forward pass: what a copy reads was copied before.
    for (size_t i = 0; i < candidates_.size(); ++i) {
      if (!candidates_[i].dropped) continue;
      Value* value = candidates_[i].value;
      Value* again = copy_before(*value->producer, nodes_[static_cast<size_t>(times[i])]);
      const std::vector<graph::Use> uses = value->uses();
      for (const graph::Use& use : uses) {
        const auto at = position_.find(use.node);
        if (at != position_.end() && at->second >= backward_) {
          graph_.set_input(use.node, use.index, again);
        }
      }
      again_[value] = again;
      ++count;
    }
    return count;
  }

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
  PassContext& context_;
  const RecomputeOptions& options_;
  std::vector<Node*> nodes_;
  std::unordered_map<const Node*, int> position_;
  int backward_ = kNever;  // position of the first node of the backward pass
  Lifetimes last_;         // of what has bytes of its own
  std::unordered_map<const Value*, int> overwritten_;  // and by which node
  std::unordered_set<const Value*> of_states_;
  std::vector<Candidate> candidates_;  // in the order of the nodes
  std::unordered_map<const Value*, size_t> index_;
  std::unordered_map<const Value*, Value*> again_;
};

}  // namespace

bool recompute(Graph& graph, PassContext& context) { return Recomputer(graph, context).run(); }

}  // namespace sardonyx::passes
