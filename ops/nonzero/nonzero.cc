// Elements that aren't zero: where they stand, and what stands where a mask says so.
//
// NonZero   y[a][k] = index along axis a of the k-th element of x that isn't zero, in row-major
//           order; NaN isn't zero, -0 is
// Compress  y[.., k, ..] = x[.., i(k), ..], i(k) the place of the k-th true element of condition;
//           without axis x is flattened before
//
// Inputs   NonZero: x of numbers or booleans       Output  y int64 [rank(x), n]
//          Compress: x of any type, condition bool [m]     y like x, n along the axis
// Z1 x has numbers or booleans      Z2 n is known before the run: x, condition are (data_shape.h)
// Z3 condition is a list of booleans, true for no entry beyond the axis      Z4 axis is in range
// Gradient NonZero: zero, nothing changes indices but a jump. Compress: that of the Gather at
//          i(k) which it stands for.
// Source   ONNX NonZero-13, Compress-28
#include "ops/nonzero/nonzero.h"

#include <algorithm>

#include "ops/core/axes.h"
#include "ops/core/data_shape.h"
#include "ops/core/dispatch.h"
#include "ops/registry.h"

namespace sardonyx::ops {

namespace nonzero {

namespace {

// --- Shape

int64_t count_of(const Tensor& x) {
  int64_t count = 0;
  dispatch_element(x.dtype(), [&]<class T>() {
    const T* elements = reinterpret_cast<const T*>(x.aligned_data());
    count = x.numel() - std::count(elements, elements + x.numel(), T(0));
  });
  return count;
}

void infer_nonzero(InferContext& c) {
  c.require(is_dispatched_element(c.dtype(0)), "Z1", "x is {}, expected numbers or booleans",
            c.type(0).str());
  const Tensor* x = shaping_data(c, 0);
  if (c.rank(0) < 0) return c.set_unranked(0, DType::kInt64);
  c.set(0, DType::kInt64, {Dim(c.rank(0)), x == nullptr ? Dim() : Dim(count_of(*x))});
}

std::vector<int64_t> places_of(const Tensor& condition) {
  std::vector<int64_t> places;
  for (int64_t i = 0; i < condition.numel(); ++i) {
    if (condition.as_int(i) != 0) places.push_back(i);
  }
  return places;
}

void infer_compress(InferContext& c) {
  c.require(c.dtype(1) == DType::kBool && (c.rank(1) < 0 || c.rank(1) == 1), "Z3",
            "condition is {}, expected a list of booleans", c.type(1).str());
  const Tensor* condition = shaping_data(c, 1);
  const bool flat = !c.node().has("axis");
  if (c.rank(0) < 0 && !flat) return c.set_unranked(0, c.dtype(0));
  const int64_t axis = c.node().get_int("axis", 0);
  c.require(flat || (axis >= -c.rank(0) && axis < c.rank(0)), "Z4",
            "axis {} is out of range for {}", axis, c.type(0).str());
  std::vector<Dim> dims(1);
  if (!flat) dims = c.dims(0);
  Dim& dim = dims[flat ? 0 : front_axis(axis, c.rank(0))];
  if (flat && c.type(0).is_static()) dim = Dim(c.type(0).numel());
  const int64_t entries = dim.value;
  dim = Dim();
  if (condition != nullptr) {
    const std::vector<int64_t> places = places_of(*condition);
    c.require(places.empty() || entries < 0 || places.back() < entries, "Z3",
              "condition is true for entry {}, but there are {}",
              places.empty() ? 0 : places.back(), entries);
    dim = Dim(std::ssize(places));
  }
  c.set(0, c.dtype(0), std::move(dims));
}

}  // namespace

// --- Parts

void write_compress(ComposeContext& c) {
  CHECK(c.x(1)->is_constant(), "the condition of {} is not constant", c.node().label());
  Value* x = c.x(0);
  if (!c.node().has("axis")) x = c.b().op("Reshape", {x, c.b().ints({x->type.numel()})});
  Value* places = c.b().ints(places_of(c.x(1)->data));
  c.set(0, c.b().op("Gather", {x, places}, {{"axis", c.node().get_int("axis", 0)}}));
}

}  // namespace nonzero

// --- Definition

void register_nonzero(OpRegistry& ops) {
  OpDef nonzero;
  nonzero.name = "NonZero";
  nonzero.doc = "Indices of the elements that aren't zero.";
  nonzero.since = {9, 13};
  nonzero.inputs = {{"X"}};
  nonzero.outputs = {{"Y"}};
  nonzero.infer = nonzero::infer_nonzero;
  nonzero.gradient = zero_gradient("integer indices");
  ops.add(std::move(nonzero));

  OpDef compress;
  compress.name = "Compress";
  compress.doc = "The entries of an axis that a mask keeps.";
  compress.since = {9, 11, 28};
  compress.inputs = {{"input"}, {"condition", Presence::kRequired, "boolean mask"}};
  compress.outputs = {{"output"}};
  compress.attributes = {{"axis", "int, default none (flattened): the axis that the mask counts"}};
  compress.infer = nonzero::infer_compress;
  compose(compress, nonzero::write_compress);
  ops.add(std::move(compress));
}

}  // namespace sardonyx::ops
