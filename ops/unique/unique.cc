// Unique: the distinct elements of x, or with an axis the distinct slices along it
//
// Inputs   x of numbers or booleans
// Outputs  y in ascending order, with sorted 0 as they come first in x
//          indices [n]  where each stands first in x        inverse_indices [items]  which of y an
//          item of x is          counts [n]  how often each occurs
//          NaN equals NaN and comes last; slices are ordered by their first element that differs.
// U1 x has numbers or booleans      U2 n is known before the run: x is (ops/core/data_shape.h)
// U3 axis is in range
// Gradient none: another n is another shape.
// Source   ONNX Unique-28
#include "ops/unique/unique.h"

#include "ops/core/axes.h"
#include "ops/core/data_shape.h"
#include "ops/core/dispatch.h"
#include "ops/registry.h"

namespace sardonyx::ops {

namespace unique {

// --- Shape

Lines items_of(const Node& node, const std::vector<int64_t>& dims) {
  const auto rank = static_cast<int64_t>(dims.size());
  if (!node.has("axis")) return Lines::over(dims, 0, rank);
  return Lines::along(dims, front_axis(node.get_int("axis", 0), static_cast<int>(rank)));
}

namespace {

int64_t count_groups(const Node& node, const Tensor& x, const Lines& items) {
  std::vector<int64_t> order(items.length), starts(items.length);
  int64_t count = 0;
  dispatch_element(x.dtype(), [&]<class T>() {
    const T* elements = reinterpret_cast<const T*>(x.aligned_data());
    count = group(Items<T>(elements, items), sorted_of(node), order, starts);
  });
  return count;
}

void infer_unique(InferContext& c) {
  c.require(is_dispatched_element(c.dtype(0)), "U1", "x is {}, expected numbers or booleans",
            c.type(0).str());
  const Tensor* x = shaping_data(c, 0);
  const bool flat = !c.node().has("axis");
  const int64_t axis = c.node().get_int("axis", 0);
  const int rank = c.rank(0);
  c.require(flat || rank < 0 || (axis >= -rank && axis < rank), "U3",
            "axis {} is out of range for {}", axis, c.type(0).str());
  Dim distinct, items;
  if (x != nullptr) {
    const Lines lines = items_of(c.node(), x->shape());
    distinct = Dim(count_groups(c.node(), *x, lines));
    items = Dim(lines.length);
  }
  if (flat) {
    c.set(0, c.dtype(0), {distinct});
  } else if (rank < 0) {
    c.set_unranked(0, c.dtype(0));
  } else {
    std::vector<Dim> dims = c.dims(0);
    dims[front_axis(axis, rank)] = distinct;
    c.set(0, c.dtype(0), std::move(dims));
  }
  c.set(1, DType::kInt64, {distinct});
  c.set(2, DType::kInt64, {items});
  c.set(3, DType::kInt64, {distinct});
}

}  // namespace

}  // namespace unique

// --- Definition

void register_unique(OpRegistry& ops) {
  OpDef op;
  op.name = "Unique";
  op.doc = "The distinct elements, or slices along an axis.";
  op.since = {11, 28};
  op.inputs = {{"X"}};
  op.outputs = {{"Y"},
                {"indices", Presence::kOptional},
                {"inverse_indices", Presence::kOptional},
                {"counts", Presence::kOptional}};
  op.attributes = {{"axis", "int, default none: compare the slices along it, not elements"},
                   {"sorted", "int, default 1: 0 keeps the order in which they come first"}};
  op.infer = unique::infer_unique;
  op.gradient = not_differentiable("how many elements are distinct changes with their values");
  ops.add(std::move(op));
}

}  // namespace sardonyx::ops
