// insert_all_reduce: what the micro-batches added up is summed over the replicas, in flat buckets.
//
// Buckets are filled in the order in which gradients are complete, so that the first sum runs while
// the backward pass goes on. The sums of the loss and the running statistics ride in the last
// bucket: the update, which divides by the true weight, has to wait for it anyway. Members keep the
// alignment of states, so that accumulators, which lie one behind the other in the same order, are
// buckets as they stand (plan_memory). Every plan of a step that updates makes the same buckets and
// starts their sums in the same order, whatever order its own nodes have: replicas may run
// different plans in one step.

#include "graph/support/error.h"
#include "ops/core/op_builder.h"
#include "passes/arena.h"
#include "passes/node_facts.h"
#include "passes/pass.h"

namespace sardonyx::passes {

namespace {

using graph::DType;
using graph::Graph;
using graph::Node;
using graph::Value;

struct Bucket {
  std::vector<std::string*> members;  // the names, in the context; rewritten to the summed members
  std::vector<int64_t> offsets;       // elements
  int64_t bytes = 0;
  DType dtype = DType::kUndefined;
};

class Inserter {
 public:
  Inserter(Graph& graph, PassContext& context)
      : graph_(graph), context_(context), options_(context.options.reduce) {}

  void run() {
    for (auto& [parameter, gradient] : context_.gradients) put(gradient, next_size());
    // A sum must not be rounded as a gradient may be.
    if (options_.wire != DType::kUndefined) sums_begin_ = buckets_.size();
    for (std::string* sum : context_.sums()) put(*sum, INT64_MAX);
    for (auto& [state, next] : context_.statistics) put(next, INT64_MAX);
    if (!context_.statistics.empty()) put(context_.replicas_with_samples, INT64_MAX);
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
    if (buckets_.empty() || buckets_.size() == sums_begin_ || buckets_.back().bytes >= limit ||
        buckets_.back().dtype != type.dtype) {
      buckets_.push_back({{}, {}, 0, type.dtype});
    }
    Bucket& bucket = buckets_.back();
    bucket.members.push_back(&member);
    bucket.offsets.push_back(bucket.bytes / static_cast<int64_t>(graph::dtype_size(type.dtype)));
    bucket.bytes += static_cast<int64_t>(align_up(type.bytes()));
  }

  // The bucket and the start of its sum, right behind the node that completes it and behind the
  // start before it.
  Value* start(size_t index) {
    const Bucket& bucket = buckets_[index];
    std::vector<Value*> members;
    for (const std::string* member : bucket.members) members.push_back(graph_.find(*member));
    Value* before = index > 0 ? started_[index - 1] : nullptr;
    std::vector<const Value*> needed(members.begin(), members.end());
    needed.push_back(before);
    ops::OpBuilder b(graph_, node_behind(graph_, needed));
    const std::string name = fmt::format("bucket{}", index);
    Value* flat = b.own("Bucket", members, {{"offsets", bucket.offsets}}, name);
    graph::Attributes attributes;
    if (options_.wire != DType::kUndefined && index < sums_begin_) {
      attributes["wire"] = std::string(graph::dtype_name(options_.wire));
    }
    std::vector<Value*> inputs{flat};
    if (before != nullptr) inputs.push_back(before);
    return b.own("AllReduce", inputs, attributes, name + "/sum");
  }

  // The summed members take the place of the old ones, in the context and in bindings.
  void finish(size_t index) {
    const Bucket& bucket = buckets_[index];
    ops::OpBuilder b(graph_);
    Value* sum = b.own("Await", {started_[index]}, {}, fmt::format("bucket{}/done", index));
    for (size_t i = 0; i < bucket.members.size(); ++i) {
      Value* old = graph_.find(*bucket.members[i]);
      Value* member =
          b.own("BucketMember", {sum},
                {{"offset", bucket.offsets[i]}, {"shape", old->type.shape()}}, "all/" + old->name);
      *bucket.members[i] = member->name;
      rebind(old, member);
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
  const MicroBatch micro_batch = context.options.micro_batch;
  if (context.options.reduce.replicas < 2) return false;
  if (micro_batch == MicroBatch::kFirst || micro_batch == MicroBatch::kMiddle) return false;
  Inserter(graph, context).run();
  return true;
}

}  // namespace sardonyx::passes
