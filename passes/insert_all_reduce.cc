// insert_all_reduce: what the micro-batches added up is summed over the replicas, in flat buckets.
//
// Buckets are filled in the order in which gradients are complete, so that the first sum runs while
// the backward pass goes on. The sums of the loss and the running statistics ride in the last
// bucket: the update, which divides by the true weight, has to wait for it anyway. Members keep the
// alignment of states, so that accumulators, which lie one behind the other in the same order, are
// buckets as they stand (plan_memory). Every plan of a step that updates makes the same buckets and
// starts their sums in the same order, whatever order its own nodes have: replicas may run
// different plans in one step.
#include <algorithm>

#include "graph/support/error.h"
#include "passes/node_facts.h"
#include "passes/pass.h"
#include "passes/replica_sum.h"

namespace sardonyx::passes {

namespace {

using graph::DType;
using graph::Graph;
using graph::Node;
using graph::Value;

constexpr int kAfter = 1;  // input of AllReduce

struct Bucket {
  std::vector<std::string*> members;  // the names, in the context; rewritten to the summed members
  BucketShape shape;
  size_t behind = 0;  // sums of statistics that are started first
};

class Inserter {
 public:
  Inserter(Graph& graph, PassContext& context)
      : graph_(graph), context_(context), options_(context.options.reduce) {}

  void run() {
    const SharedStatistics& shared = context_.shared_statistics;
    for (size_t i = 0; i < context_.gradients.size(); ++i) {
      put(context_.gradients[i].second, next_size());
      if (!shared.any()) continue;
      buckets_.back().behind = std::max(buckets_.back().behind, shared.sums_before.at(i));
    }
    // A sum must not be rounded as a gradient may be.
    if (options_.wire != DType::kUndefined) sums_begin_ = buckets_.size();
    for (std::string* sum : context_.sums()) put(*sum, INT64_MAX);
    for (auto& [state, next] : context_.statistics) {
      if (!shared.states.contains(state)) put(next, INT64_MAX);
    }
    if (!context_.replicas_with_samples.empty()) put(context_.replicas_with_samples, INT64_MAX);
    buckets_.back().behind = shared.sums.size();
    for (size_t i = 0; i < buckets_.size(); ++i) started_.push_back(start(i));
    for (size_t i = 0; i < buckets_.size(); ++i) finish(i);
    graph_.clear_outputs();
    for (const std::string* sum : context_.sums()) graph_.add_output(graph_.find(*sum));
  }

 private:
  int64_t next_size() const {
    return buckets_.size() <= 1 ? options_.first_bucket_bytes : options_.bucket_bytes;
  }

  // Adds to the last bucket while that has less than `limit` bytes.
  void put(std::string& member, int64_t limit) {
    const graph::TensorType& type = graph_.find(member)->type;
    if (buckets_.empty() || buckets_.size() == sums_begin_ ||
        buckets_.back().shape.bytes >= limit || buckets_.back().shape.dtype != type.dtype) {
      const size_t behind = buckets_.empty() ? 0 : buckets_.back().behind;
      buckets_.emplace_back().behind = behind;
    }
    buckets_.back().members.push_back(&member);
    buckets_.back().shape.add(type);
  }

  // The bucket and the start of its sum, right behind the node that completes it and behind the
  // start before it.
  Value* start(size_t index) {
    const Bucket& bucket = buckets_[index];
    const std::vector<Value*> members = values_of(bucket);
    Value* before = before_sum(index);
    std::vector<const Value*> needed(members.begin(), members.end());
    needed.push_back(before);
    ops::OpBuilder b(graph_, node_behind(graph_, needed));
    const bool gradients = index < sums_begin_;
    Value* started = start_sum(b, members, bucket.shape, fmt::format("bucket{}", index), before,
                               gradients ? options_.wire : DType::kUndefined);
    const SharedStatistics& shared = context_.shared_statistics;
    if (bucket.behind < shared.sums.size()) {
      graph_.set_input(started_sum(bucket.behind), kAfter, started);
    }
    return started;
  }

  // The sum before it in the order of all: another bucket, or one of statistics.
  Value* before_sum(size_t index) {
    const size_t behind = buckets_[index].behind;
    if (index > 0 && buckets_[index - 1].behind == behind) return started_[index - 1];
    return behind > 0 ? graph_.find(context_.shared_statistics.sums[behind - 1]) : nullptr;
  }

  // The AllReduce of statistics.
  Node* started_sum(size_t index) {
    return graph_.find(context_.shared_statistics.sums[index])->producer->input(0)->producer;
  }

  std::vector<Value*> values_of(const Bucket& bucket) {
    std::vector<Value*> values;
    for (const std::string* member : bucket.members) values.push_back(graph_.find(*member));
    return values;
  }

  // The summed members take the place of the old ones, in the context and in bindings.
  void finish(size_t index) {
    const Bucket& bucket = buckets_[index];
    ops::OpBuilder b(graph_);
    const std::vector<Value*> members = values_of(bucket);
    const FinishedSum sum =
        finish_sum(b, started_[index], members, bucket.shape, fmt::format("bucket{}", index));
    for (size_t i = 0; i < members.size(); ++i) {
      *bucket.members[i] = sum.members[i]->name;
      rebind(members[i], sum.members[i]);
    }
  }

  void rebind(const Value* old, Value* member) {
    std::vector<Value*> states;
    for (const graph::Binding& binding : graph_.bindings()) {
      if (binding.next == old) states.push_back(binding.state);
    }
    for (Value* state : states) {
      graph_.unbind(state);
      graph_.bind(state, member);
    }
  }

  Graph& graph_;
  PassContext& context_;
  const ReduceOptions& options_;
  std::vector<Bucket> buckets_;
  size_t sums_begin_ = SIZE_MAX;  // index of the first bucket that takes sums only
  std::vector<Value*> started_;
};

}  // namespace

bool insert_all_reduce(Graph& graph, PassContext& context) {
  if (context.options.reduce.replicas < 2 || !ends_step(context.options.micro_batch)) return false;
  Inserter(graph, context).run();
  return true;
}

}  // namespace sardonyx::passes
