// Gather, GatherElements, GatherND: reading at indices. (ScatterElements, ScatterND: scatter.cc;
// TensorScatter: tensor_scatter.cc.)
//
// Gather          y[.., i.., ..] = x[.., indices[i..], ..]; the axis becomes the axes of indices
// GatherElements  y[i0, i1, ..] = x[i0, .., indices[i0, i1, ..], ..] with the index at axis
// GatherND        y[b.., i.., ..] = x[b.., indices[b.., i..], ..]; a tuple on the last axis
// *Grad           dx = 0, then dx[place that was read] += dy, in the order of the indices
//
// Inputs   x of any type; indices int32 or int64, negative ones count from the back     Output  y
//          *Grad: dy, indices; the shape of x as attribute
// C1 indices are integers
// C2 axis, batch_dims and the length of a tuple fit the ranks
// C3 GatherElements: equal ranks, no axis of indices (but axis) larger than that of x
// C4 an index lies in [-n, n) of an axis of n entries (checked when it is read)
// Gradient the *Grad of the operator; x is not read. Theirs: the operator on the incoming gradient.
// Batch    Gather: rows when x carries the batch and axis isn't 0, or indices carry it and axis is
//          0; GatherGrad then is rows, or (an embedding's table) a sum over rows.
// Source   ONNX Gather-13, GatherElements-13, GatherND-13
#include "ops/gather_scatter/gather_scatter.h"

#include "ops/core/axes.h"
#include "ops/core/gradient.h"

namespace sardonyx::ops {

// --- Schema

void require_indices(const InferContext& c, int i) {
  c.require(c.dtype(i) == DType::kInt32 || c.dtype(i) == DType::kInt64, "C1",
            "indices have type {}, expected int32 or int64", c.type(i).str());
}

namespace {

// --- Shape

int axis_of(const Node& node, int rank) { return front_axis(node.get_int("axis", 0), rank); }

void check_constant_indices(const InferContext& c, const Dim& dim) {
  if (c.constant(1) == nullptr || !dim.known()) return;
  const std::vector<int64_t> indices = c.constant(1)->to_ints();
  for (size_t i = 0; i < indices.size(); ++i) {
    c.require(indices[i] >= -dim.value && indices[i] < dim.value, "C4",
              "index {} (number {} of '{}') is out of range for an axis of {} entries", indices[i],
              i, c.node().input(1)->name, dim.value);
  }
}

void infer_gather(InferContext& c) {
  require_indices(c, 1);
  if (c.rank(0) < 0 || c.rank(1) < 0) return c.set_unranked(0, c.dtype(0));
  const int axis = checked_axis(c.node().get_int("axis", 0), c.rank(0));
  check_constant_indices(c, c.dims(0)[axis]);
  std::vector<Dim> dims(c.dims(0).begin(), c.dims(0).begin() + axis);
  dims.insert(dims.end(), c.dims(1).begin(), c.dims(1).end());
  dims.insert(dims.end(), c.dims(0).begin() + axis + 1, c.dims(0).end());
  c.set(0, c.dtype(0), std::move(dims));
}

void infer_gather_grad(InferContext& c) {
  require_indices(c, 1);
  const std::vector<int64_t> shape = c.node().get_ints("shape", {});
  const int axis = axis_of(c.node(), static_cast<int>(std::ssize(shape)));
  std::vector<Dim> dims = graph::to_dims(shape);
  const int behind = c.rank(0) - static_cast<int>(std::ssize(shape));
  for (int i = 0; c.rank(0) >= 0 && i < std::ssize(shape); ++i) {
    if (i == axis) continue;
    dims[i] = merged(dims[i], c.dims(0)[i < axis ? i : i + behind], c.node().graph()->batch_symbol);
  }
  c.set(0, c.dtype(0), std::move(dims));
}

void infer_elements(InferContext& c) {
  require_indices(c, 1);
  if (c.rank(0) < 0 || c.rank(1) < 0) return c.set_unranked(0, c.dtype(0));
  c.require(c.rank(0) == c.rank(1), "C3", "indices {} and data {} have different ranks",
            c.type(1).str(), c.type(0).str());
  const int axis = checked_axis(c.node().get_int("axis", 0), c.rank(0));
  for (int i = 0; i < c.rank(0); ++i) {
    const Dim &x = c.dims(0)[i], &index = c.dims(1)[i];
    c.require(i == axis || !x.known() || index.value <= x.value, "C3",
              "axis {} of the indices {} is larger than that of the data {}", i, c.type(1).str(),
              c.type(0).str());
  }
  c.set(0, c.dtype(0), c.dims(1));
}

// The shape of x, with the symbols of the axes that dy shares with it.
void infer_like_shape(InferContext& c, int shared_end, int skip) {
  std::vector<Dim> dims = graph::to_dims(c.node().get_ints("shape", {}));
  for (int i = 0; i < std::min<int>(shared_end, static_cast<int>(dims.size())); ++i) {
    if (c.rank(0) <= i || i == skip || dims[i].value != c.dims(0)[i].value) continue;
    dims[i] = merged(dims[i], c.dims(0)[i], c.node().graph()->batch_symbol);
  }
  c.set(0, c.dtype(0), std::move(dims));
}

void infer_elements_grad(InferContext& c) {
  require_indices(c, 1);
  const int rank = static_cast<int>(c.node().get_ints("shape", {}).size());
  infer_like_shape(c, rank, axis_of(c.node(), rank));
}

void infer_gather_nd(InferContext& c) {
  require_indices(c, 1);
  const int64_t common = c.node().get_int("batch_dims", 0);
  c.require(c.rank(1) != 0, "C2", "indices {} hold no tuples", c.type(1).str());
  if (c.rank(0) < 0 || c.rank(1) < 0 || !c.dims(1).back().known()) {
    return c.set_unranked(0, c.dtype(0));
  }
  const int64_t length = c.dims(1).back().value;
  c.require(common >= 0 && common < c.rank(1) && common + length <= c.rank(0), "C2",
            "tuples of {} behind {} common axes don't fit data {} and indices {}", length, common,
            c.type(0).str(), c.type(1).str());
  std::vector<Dim> dims(c.dims(1).begin(), c.dims(1).end() - 1);
  for (int64_t i = 0; i < common; ++i) {
    c.require(agree(dims[i], c.dims(0)[i]), "C2", "common axis {} of data {} and indices {}", i,
              c.type(0).str(), c.type(1).str());
    dims[i] = merged(dims[i], c.dims(0)[i], c.node().graph()->batch_symbol);
  }
  dims.insert(dims.end(), c.dims(0).begin() + common + length, c.dims(0).end());
  c.set(0, c.dtype(0), std::move(dims));
}

void infer_gather_nd_grad(InferContext& c) {
  require_indices(c, 1);
  infer_like_shape(c, static_cast<int>(c.node().get_int("batch_dims", 0)), -1);
}

// --- Gradient

graph::Attributes with_shape(const GradientContext& c) {
  graph::Attributes attributes(c.node().attributes.begin(), c.node().attributes.end());
  attributes["shape"] = GradientContext::shape(c.x(0));
  return attributes;
}

Gradient to_grad(const std::string& op) {
  return gradient([op](GradientContext& c) {
    if (c.wants(0)) c.set(0, c.b().own(op, {c.dy(0), c.x(1)}, with_shape(c)));
  });
}

Gradient back_to(const std::string& op) {
  return gradient([op](GradientContext& c) {
    graph::Attributes attributes(c.node().attributes.begin(), c.node().attributes.end());
    attributes.erase("shape");
    if (c.wants(0)) c.set(0, c.b().op(op, {c.dy(0), c.x(1)}, std::move(attributes)));
  });
}

// --- Definition

bool first_axis(const Node& node, size_t rank) {
  return axis_of(node, static_cast<int>(rank)) == 0;
}

BatchRole gather_role(const Node& node, int) {
  const bool data = carries_batch(node, node.input(0)), index = carries_batch(node, node.input(1));
  if (data == index) return BatchRole::kCouples;
  const bool first = first_axis(node, node.input(0)->type.dims.size());
  return first == index ? BatchRole::kRows : BatchRole::kCouples;
}

BatchRole gather_grad_role(const Node& node, int) {
  const bool first = first_axis(node, node.get_ints("shape", {}).size());
  const bool index = carries_batch(node, node.input(1));
  if (first) return index ? BatchRole::kSum : BatchRole::kCouples;
  return index ? BatchRole::kCouples : BatchRole::kRows;
}

BatchRole both_rows(const Node& node) {
  const bool both = carries_batch(node, node.input(0)) && carries_batch(node, node.input(1));
  return both ? BatchRole::kRows : BatchRole::kCouples;
}

BatchRole elements_role(const Node& node, int slot) {
  if (first_axis(node, node.input(0)->type.dims.size())) return BatchRole::kCouples;
  return carries_batch(node, node.output(slot)) ? both_rows(node) : BatchRole::kCouples;
}

BatchRole gather_nd_role(const Node& node, int) {
  if (node.get_int("batch_dims", 0) > 0) return both_rows(node);
  const bool rows = !carries_batch(node, node.input(0)) && carries_batch(node, node.input(1));
  return rows ? BatchRole::kRows : BatchRole::kCouples;
}

BatchRole gather_nd_grad_role(const Node& node, int) {
  if (node.get_int("batch_dims", 0) > 0) return both_rows(node);
  return carries_batch(node, node.input(1)) ? BatchRole::kSum : BatchRole::kCouples;
}

OpDef reader(std::string name, std::string doc, std::vector<int> since, AttributeDef attribute) {
  OpDef op;
  op.name = std::move(name);
  op.doc = std::move(doc);
  op.since = std::move(since);
  op.inputs = {{"data"}, {"indices", Presence::kRequired, "integer indices"}};
  op.outputs = {{"output"}};
  op.attributes = {std::move(attribute)};
  return op;
}

OpDef grad_of(const OpDef& forward) {
  OpDef op = forward;
  op.domain = kDomain;
  op.name = forward.name + "Grad";
  op.doc = "Adds dy at the places that " + forward.name + " has read.";
  op.since = {};
  op.inputs[0] = {"dy"};
  op.attributes.push_back({"shape", "ints: shape of the output"});
  op.gradient = back_to(forward.name);
  return op;
}

}  // namespace

void register_gather_scatter(OpRegistry& ops) {
  const AttributeDef axis{"axis", "int, default 0: the axis that the indices count"};

  OpDef gather = reader("Gather", "Entries of an axis by index.", {1, 11, 13}, axis);
  gather.infer = infer_gather;
  gather.gradient = to_grad("GatherGrad");
  gather.batch = gather_role;
  // An embedding table.
  gather.parameter_slot = [](int slot) {
    return slot == 0 ? ParameterSlot::kWeight : ParameterSlot::kNone;
  };
  gather.fan = [](const Node& node, int) { return graph::fan_of(node.input(0)->type.shape()); };
  OpDef gather_grad = grad_of(gather);
  gather_grad.infer = infer_gather_grad;
  gather_grad.batch = gather_grad_role;
  gather_grad.parameter_slot = nullptr;
  gather_grad.fan = nullptr;
  ops.add(std::move(gather));
  ops.add(std::move(gather_grad));

  OpDef elements =
      reader("GatherElements", "One element per index, from the same place beside the axis.",
             {11, 13}, axis);
  elements.infer = infer_elements;
  elements.gradient = to_grad("GatherElementsGrad");
  elements.batch = elements_role;
  OpDef elements_grad = grad_of(elements);
  elements_grad.infer = infer_elements_grad;
  ops.add(std::move(elements));
  ops.add(std::move(elements_grad));

  OpDef nd = reader("GatherND", "Slices by tuples of indices.", {11, 12, 13},
                    {"batch_dims", "int, default 0: axes that data and indices have in common"});
  nd.infer = infer_gather_nd;
  nd.gradient = to_grad("GatherNDGrad");
  nd.batch = gather_nd_role;
  OpDef nd_grad = grad_of(nd);
  nd_grad.infer = infer_gather_nd_grad;
  nd_grad.batch = gather_nd_grad_role;
  ops.add(std::move(nd));
  ops.add(std::move(nd_grad));

  register_scatter(ops);
  register_tensor_scatter(ops);
}

}  // namespace sardonyx::ops
