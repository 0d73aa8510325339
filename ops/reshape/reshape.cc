// Views: the same elements under another shape; no kernels.
//
// Reshape    the shape in input 1: 0 copies that axis of x (an empty axis where allowzero is 1),
//            -1 takes the rest
// Flatten    [d0 .. dr] -> [d0 .. d(axis-1), d(axis) .. dr], axis in [-r, r]
// Squeeze    drops axes of size 1: the listed ones, or all
// Unsqueeze  adds axes of size 1, listed by their place in y
// Identity   y = x
//
// Inputs   x of any type; Reshape: shape int64[k]; Squeeze, Unsqueeze: axes int64[k], constant
// C1 axes are in range, none twice
// C2 shape: at most one -1, nothing below; no 0 beyond the rank of x, or (allowzero) beside -1
// C3 a squeezed axis has size 1
// C4 y has as many elements as x
// C5 no other batch size than the bound one is baked into the shape
// Gradient Reshape of dy to the shape of x; Identity: dy itself. x and y are not read.
// Batch    an axis that comes out whole keeps its symbol: [N,8,4,4] -> [N,128] carries the batch.
//          Rows when x and y carry it; a merged axis [N*5,64] carries it in its symbol only.
// Source   ONNX Reshape-25, Flatten-25, Squeeze-25, Unsqueeze-25, Identity-25
#include "ops/reshape/reshape.h"

#include <algorithm>

#include "ops/core/axes.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/core/normalize.h"

namespace sardonyx::ops {

namespace {

// --- Schema

void normalize_reshape(NormalizeContext& c) { c.attribute_to_input("shape", 1); }

void normalize_axes(NormalizeContext& c) { c.attribute_to_input("axes", 1); }

// --- Shape

const std::string& batch_symbol(const InferContext& c) { return c.node().graph()->batch_symbol; }

TargetAxis target_axis(const InferContext& c, int64_t number, int64_t i) {
  c.require(number >= -1, "C2", "shape[{}] is {}", i, number);
  if (number == -1) return {TargetAxis::Kind::kRest, 0};
  if (number > 0 || c.node().get_int("allowzero", 0) != 0) return {TargetAxis::Kind::kSize, number};
  c.require(i < c.rank(0), "C2", "shape[{}] is 0 (copy that axis), but the input {} has {} axes", i,
            c.type(0).str(), c.rank(0));
  return {TargetAxis::Kind::kCopy, i};
}

void infer_reshape_of_unknown(InferContext& c, const std::optional<std::vector<int64_t>>& shape) {
  std::vector<Dim> dims;
  if (shape) {
    for (int64_t number : *shape) dims.push_back(number > 0 ? Dim(number) : Dim());
  } else if (const int rank = c.listed_rank(1); rank >= 0) {
    dims.resize(rank);
  } else {
    return c.set_unranked(0, c.dtype(0));
  }
  c.set(0, c.dtype(0), std::move(dims));
}

void infer_reshape(InferContext& c) {
  const auto shape = c.known_ints(1);
  if (!shape || c.rank(0) < 0) return infer_reshape_of_unknown(c, shape);
  c.require(std::count(shape->begin(), shape->end(), -1) <= 1, "C2",
            "shape {} has more than one -1", graph::shape_str(*shape));
  std::vector<TargetAxis> target;
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < shape->size(); ++i) {
    target.push_back(target_axis(c, (*shape)[i], static_cast<int64_t>(i)));
    if (target[i].kind == TargetAxis::Kind::kSize) sizes.push_back(target[i].size);
  }
  graph::checked_numel(sizes);
  const auto has = [&](TargetAxis::Kind kind, int64_t size) {
    return std::any_of(target.begin(), target.end(), [&](const TargetAxis& axis) {
      return axis.kind == kind && axis.size == size;
    });
  };
  c.require(!has(TargetAxis::Kind::kSize, 0) || !has(TargetAxis::Kind::kRest, 0), "C2",
            "shape {} has a 0 (an empty axis, allowzero is 1) beside -1", graph::shape_str(*shape));
  const TensorType y(c.dtype(0), reshaped_dims(c.dims(0), target, batch_symbol(c)));
  // Regrouping divides by sizes, which says nothing where one is 0.
  const bool counted = c.type(0).is_static() && y.is_static();
  c.require(!counted || c.type(0).numel() == y.numel(), "C4", "{} can't take the shape {}",
            c.type(0).str(), graph::shape_str(*shape));
  c.set(0, y);
}

void infer_flatten(InferContext& c) {
  const int64_t axis = c.node().get_int("axis", 1);
  if (c.rank(0) < 0) return c.set(0, c.dtype(0), {Dim(), Dim()});
  const int rank = c.rank(0);
  c.require(axis >= -rank && axis <= rank, "C1", "axis {} is out of range [{}, {}] for rank {}",
            axis, -rank, rank, rank);
  const size_t cut = front_axis(axis, rank);
  c.set(0, c.dtype(0),
        {merged_axes(c.dims(0), 0, cut, batch_symbol(c)),
         merged_axes(c.dims(0), cut, c.dims(0).size(), batch_symbol(c))});
}

void infer_squeeze_all(InferContext& c) {
  if (!c.type(0).is_static()) return c.set_unranked(0, c.dtype(0));
  std::vector<Dim> dims;
  for (const Dim& dim : c.dims(0)) {
    if (dim.value != 1) dims.push_back(dim);
  }
  c.set(0, c.dtype(0), std::move(dims));
}

void infer_squeeze(InferContext& c) {
  if (!c.has(1)) return infer_squeeze_all(c);
  const auto axes = c.known_ints(1);
  if (!axes || c.rank(0) < 0) return c.set_unranked(0, c.dtype(0));
  std::vector<bool> drop(c.rank(0), false);
  for (int axis : checked_axes(*axes, c.rank(0))) {
    const Dim& dim = c.dims(0)[axis];
    c.require(!dim.known() || dim.value == 1, "C3", "axis {} of {} has size {}, expected 1", axis,
              c.type(0).str(), dim.value);
    drop[axis] = true;
  }
  std::vector<Dim> dims;
  for (int axis = 0; axis < c.rank(0); ++axis) {
    if (!drop[axis]) dims.push_back(c.dims(0)[axis]);
  }
  c.set(0, c.dtype(0), std::move(dims));
}

void infer_unsqueeze(InferContext& c) {
  const auto axes = c.known_ints(1);
  if (!axes || c.rank(0) < 0) return c.set_unranked(0, c.dtype(0));
  const int rank = c.rank(0) + static_cast<int>(axes->size());
  std::vector<bool> added(rank, false);
  for (int axis : checked_axes(*axes, rank)) added[axis] = true;
  std::vector<Dim> dims;
  size_t next = 0;
  for (int axis = 0; axis < rank; ++axis) {
    dims.push_back(added[axis] ? Dim(1) : c.dims(0)[next++]);
  }
  c.set(0, c.dtype(0), std::move(dims));
}

void infer_identity(InferContext& c) { c.set(0, c.type(0)); }

// --- Gradient

void reshape_back(GradientContext& c) {
  if (!c.wants(0)) return;
  const std::vector<int64_t> shape = GradientContext::shape(c.x(0));
  graph::Attributes attributes;
  // A zero is a size here, not "copy".
  if (std::count(shape.begin(), shape.end(), 0) > 0) attributes["allowzero"] = int64_t{1};
  c.set(0, c.b().op("Reshape", {c.dy(0), c.b().ints(shape)}, std::move(attributes)));
}

void identity_gradient(GradientContext& c) {
  if (c.wants(0)) c.set(0, c.dy(0));
}

// --- Definition

BatchRole view_role(const Node& node, int slot) {
  // Whoever reads a block of y must find it in the same block of x.
  const bool both = carries_batch(node, node.input(0)) && carries_batch(node, node.output(slot));
  return both ? BatchRole::kRows : BatchRole::kCouples;
}

OpDef view(std::string name, std::string doc, std::vector<int> since, Gradient rule) {
  OpDef op;
  op.name = std::move(name);
  op.doc = std::move(doc);
  op.since = std::move(since);
  op.inputs = {{"data"}};
  op.outputs = {{"output"}};
  op.gradient = std::move(rule);
  op.batch = view_role;
  op.narrow = Narrow::kFollows;
  op.view = true;
  op.preprocessing = true;
  return op;
}

}  // namespace

void register_reshape(OpRegistry& ops) {
  OpDef reshape = view("Reshape", "The same elements under the shape that input 1 gives.",
                       {1, 5, 13, 14, 19, 21, 23, 24, 25}, gradient(reshape_back));
  reshape.inputs.push_back({"shape", Presence::kRequired, "integer shape"});
  reshape.attributes = {{"allowzero", "int, default 0: 1 makes a 0 in the shape an empty axis"}};
  reshape.normalize = normalize_reshape;
  reshape.infer = infer_reshape;
  ops.add(std::move(reshape));

  OpDef flatten = view("Flatten", "Merges the axes in front of `axis`, and those from it on.",
                       {1, 9, 11, 13, 21, 23, 24, 25}, gradient(reshape_back));
  flatten.attributes = {{"axis", "int, default 1: first axis of the second group"}};
  flatten.infer = infer_flatten;
  ops.add(std::move(flatten));

  OpDef squeeze =
      view("Squeeze", "Drops axes of size 1.", {1, 11, 13, 21, 23, 24, 25}, gradient(reshape_back));
  squeeze.inputs.push_back({"axes", Presence::kOptional, "integer axes"});
  squeeze.normalize = normalize_axes;
  squeeze.infer = infer_squeeze;
  ops.add(std::move(squeeze));

  OpDef unsqueeze = view("Unsqueeze", "Adds axes of size 1.", {1, 11, 13, 21, 23, 24, 25},
                         gradient(reshape_back));
  unsqueeze.inputs.push_back({"axes", Presence::kRequired, "integer axes"});
  unsqueeze.normalize = normalize_axes;
  unsqueeze.infer = infer_unsqueeze;
  ops.add(std::move(unsqueeze));

  OpDef identity = view("Identity", "Its input.", {1, 13, 14, 16, 19, 21, 23, 24, 25},
                        gradient(identity_gradient));
  identity.infer = infer_identity;
  identity.axes = AxisUse::kElementwise;
  ops.add(std::move(identity));
}

}  // namespace sardonyx::ops
