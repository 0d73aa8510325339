// OneHot: y[.., c, ..] = on where the index is c, or c - depth, else off
//
// Inputs   indices of any shape, numbers    depth one element, constant    values [off, on]
// Output   y: the shape of indices with an axis of `depth` entries at `axis` (default: the last)
// C1 -rank(y) <= axis < rank(y)    C2 indices and depth are numbers
// C3 depth is one number >= 0      C4 values has two elements, of any type
// Indices outside of [-depth, depth) leave a line of off. Floats are cut off to integers.
// Gradient of values, unless the file holds them: [sum of dy - on, on] with
//          on = sum of dy OneHot(indices, depth, [0, 1]).
// Batch    rows, unless the new axis is axis 0.
// Source   ONNX OneHot-28
#include "ops/core/axes.h"
#include "ops/core/elementwise.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/core/normalize.h"

namespace sardonyx::ops {

namespace {

// --- Schema

// What marks look like is no weight: a constant that isn't the file's is never trained.
void normalize_one_hot(NormalizeContext& c) {
  Node& node = c.node();
  const Value* values = node.input(2);
  if (values == nullptr || !values->is_constant() || !values->data.defined()) return;
  node.graph()->set_input(&node, 2, c.b().constant(values->name + "/marks", values->data));
}

// --- Shape

void infer_one_hot(InferContext& c) {
  require_numbers(c, 0, "C2");
  require_numbers(c, 1, "C2");
  const std::vector<int64_t> depth = c.ints(1);  // must be known
  c.require(depth.size() == 1 && depth[0] >= 0, "C3", "depth is {}, expected one number from 0 on",
            graph::shape_str(depth));
  const TensorType& values = c.type(2);
  c.require(!values.is_static() || values.numel() == 2, "C4",
            "values has type {}, expected two elements", values.str());
  if (c.rank(0) < 0) return c.set_unranked(0, values.dtype);
  const int rank = c.rank(0) + 1;
  const int64_t axis = c.node().get_int("axis", -1);
  c.require(axis >= -rank && axis < rank, "C1", "axis {} is out of range for {} axes", axis, rank);
  std::vector<Dim> dims = c.dims(0);
  dims.insert(dims.begin() + front_axis(axis, rank), Dim(depth[0]));
  c.set(0, values.dtype, std::move(dims));
}

// --- Gradient

void one_hot_gradient(GradientContext& c) {
  if (!c.wants(2)) return;
  const DType dtype = c.x(2)->type.dtype;
  const auto sum = [&](Value* x) {
    return c.b().op("Reshape",
                    {c.b().op("ReduceSum", {x}, {{"keepdims", int64_t{0}}}), c.b().ints({1})});
  };
  Value* marks = c.b().constant(Tensor::of<double>({2}, {0, 1}).cast(dtype), "marks");
  Value* mask =
      c.b().op("OneHot", {c.x(0), c.x(1), marks}, {{"axis", c.node().get_int("axis", -1)}});
  Value* on = sum(c.b().op("Mul", {c.dy(0), mask}));
  Value* off = c.b().op("Sub", {sum(c.dy(0)), on});
  c.set(2, c.b().op("Concat", {off, on}, {{"axis", int64_t{0}}}));
}

// --- Definition

BatchRole one_hot_role(const Node& node, int) {
  const TensorType& indices = node.input(0)->type;
  if (!carries_batch(node, node.input(0))) return BatchRole::kCouples;
  const int axis = front_axis(node.get_int("axis", -1), indices.rank() + 1);
  return axis == 0 ? BatchRole::kCouples : BatchRole::kRows;
}

}  // namespace

void register_one_hot(OpRegistry& ops) {
  OpDef op;
  op.name = "OneHot";
  op.doc = "Indices as lines that hold one value at the index and another elsewhere.";
  op.since = {9, 11, 28};
  op.inputs = {{"indices", Presence::kRequired, "indices"},
               {"depth", Presence::kRequired, "number of classes"},
               {"values"}};
  op.outputs = {{"output"}};
  op.attributes = {{"axis", "int, default -1: where the new axis stands in the output"}};
  op.normalize = normalize_one_hot;
  op.infer = infer_one_hot;
  op.gradient = gradient(one_hot_gradient);
  op.batch = one_hot_role;
  ops.add(std::move(op));
}

}  // namespace sardonyx::ops
