// The nodes of one sum over the replicas: Bucket -> AllReduce -> Await -> BucketMember
// (ops/all_reduce). Sums are matched by the order in which they are started, so every AllReduce
// takes what stands before it in that order.
#pragma once

#include <string>
#include <vector>

#include "ops/core/op_builder.h"

namespace sardonyx::passes {

// Members of one type, one behind the other, each where a state could begin: accumulators, which
// lie so, are a bucket as they stand (plan_memory).
struct BucketShape {
  std::vector<int64_t> offsets;  // elements
  int64_t bytes = 0;
  graph::DType dtype = graph::DType::kUndefined;
  void add(const graph::TensorType& member);
};

// The sum of `members`, started before the builder's node. `before`: what the order demands first;
// nullptr: nothing.
graph::Value* start_sum(ops::OpBuilder& b, const std::vector<graph::Value*>& members,
                        const BucketShape& bucket, const std::string& name, graph::Value* before,
                        graph::DType wire = graph::DType::kUndefined);
// The summed members, and the value that is there once they are.
struct FinishedSum {
  graph::Value* done = nullptr;
  std::vector<graph::Value*> members;
};
FinishedSum finish_sum(ops::OpBuilder& b, graph::Value* started,
                       const std::vector<graph::Value*>& members, const BucketShape& bucket,
                       const std::string& name);

// Zeros in the type of `like`, for a replica that has no part in a sum. At the front of the graph:
// a sum may be started anywhere.
graph::Value* no_part(const graph::Value* like, graph::Graph& graph);

}  // namespace sardonyx::passes
