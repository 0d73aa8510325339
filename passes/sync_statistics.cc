// sync_statistics (--sync-bn): where an operator takes sums over the rows of a micro-batch
// (OpDef::shared_sums), it gets those over the rows of all replicas.
//
// What is summed is also a gradient (of scale and bias): that one stays the replica's own, since
// insert_all_reduce sums it. Every plan of a micro-batch makes the same sums in the same order,
// that of the nodes; a replica without samples makes them of zeros, and what it has no need of goes
// with eliminate_dead. The order is a chain through `after`, into which insert_all_reduce weaves
// its buckets.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "passes/pass.h"
#include "passes/replica_sum.h"

namespace sardonyx::passes {

namespace {

using graph::Graph;
using graph::Node;
using graph::Value;

class Synchroniser {
 public:
  Synchroniser(Graph& graph, PassContext& context)
      : graph_(graph), context_(context), shared_(context.shared_statistics) {}

  void run() {
    std::vector<Node*> nodes;
    for (Node& node : graph_.nodes()) nodes.push_back(&node);
    std::unordered_map<const Node*, size_t> sums_before;
    for (Node* node : nodes) {
      const std::vector<int> slots = slots_of(*node);
      if (!slots.empty() && shares(*node, slots)) share(*node, slots);
      sums_before[node] = shared_.sums.size();
    }
    for (const auto& [parameter, gradient] : context_.gradients) {
      shared_.sums_before.push_back(sums_before[graph_.find(gradient)->producer]);
    }
    for (const auto& [state, next] : context_.statistics) {
      if (reads_shared(*graph_.find(next)->producer)) shared_.states.insert(state);
    }
  }

 private:
  static std::vector<int> slots_of(const Node& node) {
    std::vector<int> slots;
    for (const int slot : ops::OpRegistry::get().at(node).shared_sums) {
      if (node.input(slot) != nullptr) slots.push_back(slot);
    }
    return slots;
  }

  // A gradient is like its forward pass, which gives it the statistics.
  bool shares(const Node& node, const std::vector<int>& slots) {
    if (!node.forward_node.empty()) return reads_shared(node);
    const Node* sums = node.input(slots[0])->producer;
    const Value* summed = sums == nullptr ? nullptr : sums->input(0);
    if (summed == nullptr || ops::carries_batch(graph_, summed)) return summed != nullptr;
    context_.notice(fmt::format(
        "--sync-bn leaves the statistics of '{}' to each replica: its axis 0 isn't that of the "
        "samples",
        summed->name));
    return false;
  }

  bool reads_shared(const Node& node) const {
    return std::ranges::any_of(node.inputs(), [&](const Value* value) {
      return value != nullptr && sharing_.contains(value->producer);
    });
  }

  void share(Node& node, const std::vector<int>& slots) {
    std::vector<Value*> own;
    BucketShape bucket;
    for (const int slot : slots) {
      Value* value = node.input(slot);
      own.push_back(has_samples(context_.options.micro_batch) ? value : no_part(value, graph_));
      bucket.add(value->type);
    }
    ops::OpBuilder b(graph_, &node);
    const std::string name = "sync/" + node.input(slots[0])->name;
    Value* started = start_sum(b, own, bucket, name, done_);
    const FinishedSum sum = finish_sum(b, started, own, bucket, name);
    for (size_t i = 0; i < slots.size(); ++i) graph_.set_input(&node, slots[i], sum.members[i]);
    done_ = sum.done;
    shared_.sums.push_back(done_->name);
    sharing_.insert(&node);
  }

  Graph& graph_;
  PassContext& context_;
  SharedStatistics& shared_;
  std::unordered_set<const Node*> sharing_;
  Value* done_ = nullptr;  // the sum before
};

}  // namespace

bool sync_statistics(Graph& graph, PassContext& context) {
  if (!shares_statistics(context.options)) return false;
  Synchroniser(graph, context).run();
  if (context.shared_statistics.any()) return true;
  context.notice("--sync-bn does nothing: no BatchNormalization takes statistics over the samples");
  return false;
}

}  // namespace sardonyx::passes
