// Searching along one axis.
//
// ArgMax ArgMin   y = index of the largest (smallest) element; of equal ones the first, or the last
//                 with select_last_index 1. NaN wins.
// Hardmax         y = 1 where ArgMax points to, else 0
// TopK(x, k)      values, indices = the k largest (smallest with largest 0) in order; of equal ones
//                 the first. NaN counts as larger than everything.
//
// Inputs   x of any shape, numbers    k int64, one element, constant
// Output   y int64: axis has one entry (keepdims) or is gone; Hardmax: like x
//          values, indices: axis has k entries
// C1 -rank(x) <= axis < rank(x)    C2 numbers (Hardmax: floats)
// C3 ArgMax, ArgMin: axis isn't empty    C4 0 <= k <= entries of the axis
// Below opset 13 Hardmax searches the axes from `axis` (default 1) on together: the private
// attribute flatten = 1.
// Gradient TopK: dy goes back to where the values stood (GatherElementsGrad). Indices have none:
//          nothing changes them but a jump, and that of Hardmax is zero.
// Batch    rows, unless the search runs along axis 0.
// Source   ONNX ArgMax-13, ArgMin-13, Hardmax-13, TopK-24
#include "ops/search/search.h"

#include "ops/core/axes.h"
#include "ops/core/elementwise.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/core/normalize.h"

namespace sardonyx::ops {

namespace search {

// --- Schema

int64_t axis_attribute(const Node& node) {
  return node.get_int("axis", node.op == "TopK" || node.op == "Hardmax" ? -1 : 0);
}

int axis_of(const Node& node, int rank) { return front_axis(axis_attribute(node), rank); }

}  // namespace search

namespace {

void normalize_top_k(NormalizeContext& c) { c.attribute_to_input("k", 1); }

void normalize_hardmax(NormalizeContext& c) {
  if (c.opset() >= 13) return;
  c.node().attributes.try_emplace("axis", int64_t{1});
  c.node().attributes[search::kFlatten] = int64_t{1};
}

// --- Shape

void require_line(const InferContext& c) {
  require_numbers(c, 0, "C2");
  const int rank = c.rank(0);
  if (rank < 0) return;
  const int64_t axis = search::axis_attribute(c.node());
  // Flattening at `rank` leaves lines of one element.
  const int end = c.node().get_int(search::kFlatten, 0) != 0 ? rank + 1 : rank;
  c.require(axis >= -rank && axis < end, "C1", "axis {} is out of range for {} axes", axis, rank);
}

void infer_hardmax(InferContext& c) {
  require_floating(c, 0, "C2");
  require_line(c);
  infer_same(c);
}

void infer_arg(InferContext& c) {
  require_line(c);
  if (c.rank(0) < 0) return c.set_unranked(0, DType::kInt64);
  const int axis = search::axis_of(c.node(), c.rank(0));
  std::vector<Dim> dims = c.dims(0);
  c.require(dims[axis].value != 0, "C3", "axis {} of {} has no entries", axis, c.type(0).str());
  if (c.node().get_int("keepdims", 1) != 0) {
    dims[axis] = Dim(1);
  } else {
    dims.erase(dims.begin() + axis);
  }
  c.set(0, DType::kInt64, std::move(dims));
}

void infer_top_k(InferContext& c) {
  require_line(c);
  const std::vector<int64_t> k = c.ints(1);  // must be known
  c.require(k.size() == 1 && k[0] >= 0, "C4", "k is {}, expected one number from 0 on",
            graph::shape_str(k));
  if (c.rank(0) < 0) {
    c.set_unranked(0, c.dtype(0));
    return c.set_unranked(1, DType::kInt64);
  }
  const int axis = search::axis_of(c.node(), c.rank(0));
  std::vector<Dim> dims = c.dims(0);
  c.require(!dims[axis].known() || k[0] <= dims[axis].value, "C4",
            "k is {}, but axis {} of {} has only {} entries", k[0], axis, c.type(0).str(),
            dims[axis].value);
  dims[axis] = Dim(k[0]);
  c.set(0, c.dtype(0), dims);
  c.set(1, DType::kInt64, std::move(dims));
}

// --- Gradient

void top_k_gradient(GradientContext& c) {
  if (!c.wants(0) || c.dy(0) == nullptr) return;
  const Node& node = c.node();
  Value* indices = c.y(1);
  if (indices == nullptr) {  // the file doesn't use them
    const graph::Attributes attributes(node.attributes.begin(), node.attributes.end());
    indices = c.b().node("", "TopK", {c.x(0), c.x(1)}, {"", "indices"}, attributes)->output(1);
  }
  c.set(0, c.b().own("GatherElementsGrad", {c.dy(0), indices},
                     {{"axis", int64_t{search::axis_of(node, c.x(0)->type.rank())}},
                      {"shape", GradientContext::shape(c.x(0))}}));
}

// --- Definition

BatchRole search_role(const Node& node, int) {
  const TensorType& x = node.input(0)->type;
  return x.ranked && search::axis_of(node, x.rank()) != 0 ? BatchRole::kRows : BatchRole::kCouples;
}

OpDef arg(const char* name, const char* doc) {
  OpDef op;
  op.name = name;
  op.doc = doc;
  op.since = {1, 11, 12, 13};
  op.inputs = {{"data"}};
  op.outputs = {{"reduced"}};
  op.attributes = {{"axis", "int, default 0: the axis that is searched"},
                   {"keepdims", "int, default 1: the axis stays with one entry"},
                   {"select_last_index", "int, default 0: 1 takes the last of equal elements"}};
  op.infer = infer_arg;
  op.gradient = zero_gradient("integer indices");
  op.batch = search_role;
  return op;
}

OpDef hardmax() {
  OpDef op;
  op.name = "Hardmax";
  op.doc = "1 at the first of the largest elements along an axis, else 0.";
  op.since = {1, 11, 13};
  op.inputs = {{"input"}};
  op.outputs = {{"output"}};
  op.attributes = {
      {"axis", "int, default -1: the axis that is searched"},
      {search::kFlatten, "private int, default 0: 1 takes all axes from `axis` on together",
       Writer::kRules}};
  op.normalize = normalize_hardmax;
  op.infer = infer_hardmax;
  op.gradient = zero_gradient("the function is made of steps");
  op.batch = search_role;
  return op;
}

}  // namespace

void register_search(OpRegistry& ops) {
  ops.add(arg("ArgMax", "Index of the largest element along an axis."));
  ops.add(arg("ArgMin", "Index of the smallest element along an axis."));
  ops.add(hardmax());
  OpDef top_k;
  top_k.name = "TopK";
  top_k.doc = "The k largest or smallest elements along an axis, and their indices.";
  top_k.since = {1, 10, 11, 24};
  top_k.inputs = {{"X"}, {"K", Presence::kRequired, "a number of elements"}};
  top_k.outputs = {{"Values", Presence::kOptional}, {"Indices", Presence::kOptional}};
  top_k.attributes = {{"axis", "int, default -1: the axis that is searched"},
                      {"largest", "int, default 1: 0 takes the smallest"},
                      {"sorted", "int, default 1: 0 allows any order (they come sorted)"}};
  top_k.normalize = normalize_top_k;
  top_k.infer = infer_top_k;
  top_k.gradient = gradient(top_k_gradient);
  top_k.batch = search_role;
  ops.add(std::move(top_k));
}

}  // namespace sardonyx::ops
