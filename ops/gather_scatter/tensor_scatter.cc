// TensorScatter: a cache with new steps written into it
//
// y = cache, then y[b, .., w[b] + s, ..] = update[b, .., s, ..]; circular: (w[b] + s) mod steps
// Inputs   cache [B, .., steps, ..]  update [B, .., S, ..], S <= steps, of one type
//          write_indices w int64 [B] (default 0)                        Output  y like cache
// K1 one type    K2 axis (default -2) is in range and not that of the samples
// K3 update has the shape of the cache beside the axis, write_indices one entry a sample
// K4 the mode is known    K5 a step lies within the cache (checked when it is written)
// Gradient that of the ScatterElements it stands for: zeros where the cache was overwritten, and
//          dupdate read there.
// Source   ONNX TensorScatter-24
#include "ops/core/axes.h"
#include "ops/core/one_type.h"
#include "ops/gather_scatter/gather_scatter.h"

namespace sardonyx::ops {

namespace {

enum Input : int { kCache, kUpdate, kWriteIndices };

int64_t axis_of(const Node& node, int rank) { return front_axis(node.get_int("axis", -2), rank); }

bool is_circular(const Node& node) {
  const std::string mode = node.get_string("mode", "linear");
  if (mode == "linear" || mode == "circular") return mode == "circular";
  throw ConstraintError("K4", "mode '{}' is none of linear, circular", mode);
}

// --- Shape

void infer_tensor_scatter(InferContext& c) {
  require_type_of(c, kUpdate, kCache, "K1");
  is_circular(c.node());
  c.set(0, c.type(kCache));
  const int rank = c.rank(kCache);
  if (rank < 0 || c.rank(kUpdate) < 0) return;
  const int64_t axis = c.node().get_int("axis", -2);
  c.require(axis >= -rank && axis < rank && front_axis(axis, rank) != 0, "K2",
            "axis {} of {} is not one behind the first", axis, c.type(kCache).str());
  bool fits = c.rank(kUpdate) == rank;
  for (int i = 0; fits && i < rank; ++i) {
    const Dim &cache = c.dims(kCache)[i], &update = c.dims(kUpdate)[i];
    fits = i == front_axis(axis, rank) ? !cache.known() || update.value <= cache.value
                                       : agree(cache, update);
  }
  c.require(fits, "K3", "update {} doesn't fit the cache {}", c.type(kUpdate).str(),
            c.type(kCache).str());
  if (!c.has(kWriteIndices) || c.rank(kWriteIndices) < 0) return;
  require_indices(c, kWriteIndices);
  c.require(c.rank(kWriteIndices) == 1 && agree(c.dims(kWriteIndices)[0], c.dims(kCache)[0]), "K3",
            "write_indices are {}, expected one for each of {} samples",
            c.type(kWriteIndices).str(), c.dims(kCache)[0].value);
}

}  // namespace

// --- Parts

void write_tensor_scatter(ComposeContext& c) {
  OpBuilder& b = c.b();
  const std::vector<int64_t> update = c.x(kUpdate)->type.shape();
  const int rank = static_cast<int>(update.size());
  const int64_t axis = axis_of(c.node(), rank);
  std::vector<int64_t> along(rank, 1), per_sample(rank, 1);
  along[axis] = update[axis];
  per_sample[0] = -1;
  const auto number = [&](int64_t value) { return b.constant(Tensor::scalar(value), "number"); };
  Value* steps = b.op("Range", {number(0), number(update[axis]), number(1)});
  Value* indices = b.op("Reshape", {steps, b.ints(along)});
  if (Value* begins = c.x(kWriteIndices)) {
    begins = b.op("Cast", {begins}, {{"to", static_cast<int64_t>(DType::kInt64)}});
    indices = b.op("Add", {b.op("Reshape", {begins, b.ints(per_sample)}), indices});
  }
  if (is_circular(c.node())) {
    indices = b.op("Mod", {indices, b.ints({c.x(kCache)->type.shape()[axis]})});
  }
  indices = b.op("Expand", {indices, b.ints(update)});
  c.set(0, b.op("ScatterElements", {c.x(kCache), indices, c.x(kUpdate)}, {{"axis", axis}}));
}

// --- Definition

void register_tensor_scatter(OpRegistry& ops) {
  OpDef op;
  op.name = "TensorScatter";
  op.doc = "Writes new steps into a cache.";
  op.since = {24};
  op.inputs = {
      {"past_cache"}, {"update"}, {"write_indices", Presence::kOptional, "integer indices"}};
  op.outputs = {{"present_cache"}};
  op.attributes = {{"axis", "int, default -2: the axis of the steps"},
                   {"mode", "string, default linear: linear, or circular, which starts anew at 0"}};
  op.infer = infer_tensor_scatter;
  op.batch = rows_of_all;
  compose(op, write_tensor_scatter);
  ops.add(std::move(op));
}

}  // namespace sardonyx::ops
