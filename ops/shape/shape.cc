// Shape and Size: what is known of the type, as integers. They fold to constants as soon as the
// type of x is static, so nothing of them is left in a plan.
//
// Shape   y = dims(x)[start:end]; start and end count from the back when negative and are clamped
// Size    y = number of elements of x (rank 0)
//
// Inputs   x of any type, whose bytes are never read          Output  y int64
// Gradient zero: both depend on the shape alone.
// Source   ONNX Shape-25, Size-25
#include "ops/shape/shape.h"

#include <algorithm>

#include "ops/core/infer.h"

namespace sardonyx::ops {

// --- Shape

std::pair<int64_t, int64_t> shape_range(const Node& node, int rank) {
  const auto clamped = [rank](int64_t position) {
    return std::clamp<int64_t>(position < 0 ? position + rank : position, 0, rank);
  };
  const int64_t start = clamped(node.get_int("start", 0));
  return {start, std::max(start, clamped(node.get_int("end", rank)))};
}

namespace {

void infer_shape(InferContext& c) {
  if (c.rank(0) < 0) return c.set(0, DType::kInt64, {Dim()});
  const auto [start, end] = shape_range(c.node(), c.rank(0));
  c.set(0, DType::kInt64, {Dim(end - start)});
}

void infer_size(InferContext& c) { c.set(0, DType::kInt64, std::vector<Dim>{}); }

// --- Definition

OpDef shape_reader(std::string name, std::string doc, std::vector<int> since) {
  OpDef op;
  op.name = std::move(name);
  op.doc = std::move(doc);
  op.since = std::move(since);
  op.inputs = {{"data", Presence::kRequired, "only its shape is read"}};
  op.outputs = {{"output"}};
  op.gradient = zero_gradient("depends on the shape of its input only");
  op.reads_only_shapes = true;
  return op;
}

}  // namespace

void register_shape(OpRegistry& ops) {
  OpDef shape =
      shape_reader("Shape", "The dimensions of its input.", {1, 13, 15, 19, 21, 23, 24, 25});
  shape.attributes = {{"start", "int, default 0: first axis"},
                      {"end", "int, default the rank: one behind the last axis"}};
  shape.infer = infer_shape;
  ops.add(std::move(shape));

  OpDef size =
      shape_reader("Size", "The number of elements of its input.", {1, 13, 19, 21, 23, 24, 25});
  size.infer = infer_size;
  ops.add(std::move(size));
}

}  // namespace sardonyx::ops
