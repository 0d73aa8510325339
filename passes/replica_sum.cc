#include "passes/replica_sum.h"

#include "passes/arena.h"

namespace sardonyx::passes {

using graph::Value;

void BucketShape::add(const graph::TensorType& member) {
  dtype = member.dtype;
  offsets.push_back(bytes / static_cast<int64_t>(graph::dtype_size(dtype)));
  bytes += static_cast<int64_t>(align_up(member.bytes()));
}

Value* start_sum(ops::OpBuilder& b, const std::vector<Value*>& members, const BucketShape& bucket,
                 const std::string& name, Value* before, graph::DType wire) {
  Value* flat = b.own("Bucket", members, {{"offsets", bucket.offsets}}, name);
  graph::Attributes attributes;
  if (wire != graph::DType::kUndefined) {
    attributes["wire"] = std::string(graph::dtype_name(wire));
  }
  std::vector<Value*> inputs{flat};
  if (before != nullptr) inputs.push_back(before);
  return b.own("AllReduce", inputs, attributes, name + "/sum");
}

FinishedSum finish_sum(ops::OpBuilder& b, Value* started, const std::vector<Value*>& members,
                       const BucketShape& bucket, const std::string& name) {
  FinishedSum sum{b.own("Await", {started}, {}, name + "/done"), {}};
  for (size_t i = 0; i < members.size(); ++i) {
    sum.members.push_back(
        b.own("BucketMember", {sum.done},
              {{"offset", bucket.offsets[i]}, {"shape", members[i]->type.shape()}},
              "all/" + members[i]->name));
  }
  return sum;
}

Value* no_part(const Value* like, graph::Graph& graph) {
  ops::OpBuilder b(graph, graph.nodes().empty() ? nullptr : &graph.nodes().front());
  return b.op("ConstantOfShape", {b.ints(like->type.shape())},
              {{"value", graph::Tensor(like->type.dtype, {1})}}, "no/" + like->name);
}

}  // namespace sardonyx::passes
