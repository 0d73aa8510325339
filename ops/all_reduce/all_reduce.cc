// What joins the gradients of replicas: flat buckets that are summed while the backward pass runs.
//
//   Bucket(members...) -> bucket       all members in one tensor, member i from offsets[i] on. What
//                                      lies between them is 0. The planner lets members be
//                                      written in place; then nothing moves.
//   AllReduce(bucket, after?) -> sum   starts the sum over the replicas; it overwrites the bucket.
//                                      Sums are matched by the order in which they are started, so
//                                      each names the one before it: no pass can swap two.
//   Await(sum) -> sum                  the same memory, once the sum is complete. Between the two
//                                      nobody may touch it.
//   BucketMember(bucket) -> member     the elements from `offset` on in the shape `shape`: a view
//
// A1 members have one floating type and static shapes
// A2 one offset per member, ascending, without overlap
// A3 a member lies inside its bucket
// A4 wire is "" or "bfloat16", with float32 data
//
// Gradient none: the step ends here.
//
// Source   Sardonyx: insert_all_reduce writes these nodes, ops/core/communicator.h is the sum
#include "ops/core/elementwise.h"
#include "ops/core/infer.h"
#include "ops/core/step_op.h"
#include "ops/registry.h"

namespace sardonyx::ops {

namespace {

// --- Schema

std::vector<int64_t> offsets_of(const Node& node) { return node.get_ints("offsets", {}); }

// --- Shape

void infer_bucket(InferContext& context) {
  const Node& node = context.node();
  const std::vector<int64_t> offsets = offsets_of(node);
  context.require(static_cast<int>(offsets.size()) == node.num_inputs() && !offsets.empty(), "A2",
                  "{} offsets for {} members", offsets.size(), node.num_inputs());
  require_floating(context, 0, "A1");
  int64_t end = 0;
  for (int i = 0; i < node.num_inputs(); ++i) {
    const TensorType& type = context.type(i);
    context.require(type.dtype == context.dtype(0) && type.is_static(), "A1",
                    "member {} has type {}, expected {} with a known shape", i, type.str(),
                    graph::dtype_name(context.dtype(0)));
    context.require(offsets[i] >= end, "A2", "member {} begins at {}, member {} ends at {}", i,
                    offsets[i], i - 1, end);
    end = offsets[i] + type.numel();
  }
  context.set(0, context.dtype(0), {end});
}

void infer_all_reduce(InferContext& context) {
  require_floating(context, 0, "A1");
  const std::string wire = context.node().get_string("wire", "");
  context.require(wire.empty() || (wire == "bfloat16" && context.dtype(0) == DType::kFloat32), "A4",
                  "wire is '{}' and the data are {}", wire, graph::dtype_name(context.dtype(0)));
  infer_same(context);
}

void infer_member(InferContext& context) {
  const Node& node = context.node();
  std::vector<Dim> dims;
  for (const int64_t size : node.get_ints("shape", {})) dims.emplace_back(size);
  const TensorType type(context.dtype(0), dims);
  const int64_t offset = node.get_int("offset", 0);
  const TensorType& bucket = context.type(0);
  context.require(offset >= 0 && (!bucket.is_static() || offset + type.numel() <= bucket.numel()),
                  "A3", "elements {} to {} of a bucket of type {}", offset, offset + type.numel(),
                  bucket.str());
  context.set(0, type);
}

// --- Definition

OpDef bucket() {
  OpDef op = step_op("Bucket", "Gradients in one flat tensor, to be summed at once.");
  op.inputs = {{"members", Presence::kVariadic}};
  op.outputs = {{"bucket"}};
  op.attributes = {{"offsets", "ints, required: element at which each member begins"}};
  op.infer = infer_bucket;
  op.joins_at = offsets_of;
  return op;
}

// Two sums of equal data are two sums, and the second result overwrites the first.
OpDef in_place(const char* name, const char* doc) {
  OpDef op = step_op(name, doc);
  op.inputs = {{"data"}};
  op.outputs = {{"sum"}};
  op.infer = infer_same;
  op.aliases = [](const Node&) { return std::vector<std::pair<int, int>>{{0, 0}}; };
  op.pure = false;
  return op;
}

OpDef all_reduce() {
  OpDef op = in_place("AllReduce", "Starts the sum of a bucket over all replicas.");
  op.inputs.push_back({"after", Presence::kOptional});
  op.attributes = {{"wire", "string, default \"\": type that terms are rounded to, or bfloat16"}};
  op.infer = infer_all_reduce;
  return op;
}

OpDef bucket_member() {
  OpDef op = step_op("BucketMember", "One member of a bucket.");
  op.inputs = {{"bucket"}};
  op.outputs = {{"member"}};
  op.attributes = {{"offset", "int, required: element at which the member begins"},
                   {"shape", "ints, required: shape of the member"}};
  op.infer = infer_member;
  op.view = true;
  op.view_begin = [](const Node& node) { return node.get_int("offset", 0); };
  return op;
}

}  // namespace

void register_all_reduce(OpRegistry& ops) {
  ops.add(bucket());
  ops.add(all_reduce());
  ops.add(in_place("Await", "Waits until the sum of a bucket is complete."));
  ops.add(bucket_member());
}

}  // namespace sardonyx::ops
