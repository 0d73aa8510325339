// ScatterElements, ScatterND: writing at indices. (Reading: gather_scatter.cc.)
//
// ScatterElements  y = x, then y[i0, .., indices[i0, i1, ..], ..] = updates[i0, i1, ..]
// ScatterND        y = x, then y[indices[i..], ..] = updates[i.., ..]; a tuple on the last axis
//
// Inputs   x; indices int32 or int64; updates of the type of x
//          attribute reduction: none, add, mul, max, min (of what is there and the update)
// C1 indices are integers
// C2 ScatterElements: equal ranks, updates and indices of one shape, no axis larger than that of x
// C3 ScatterND: updates has the shape of the tuples and of what lies behind them
// C4 an index lies in [-n, n) of an axis of n entries (checked when it is read)
// Gradient none: dx = dy with zeros where it was overwritten, dupdates = dy read at the indices,
//          each place written once, as ONNX demands. add: dx = dy. mul: dy times the product of all
//          other factors, zeros among them or not. max, min: dy in equal shares to all that are it.
// Batch    ScatterElements: rows when axis isn't 0 and all operands carry the batch.
// Source   ONNX ScatterElements-18, ScatterND-18, Scatter-11 (becomes ScatterElements)
#include "ops/core/axes.h"
#include "ops/core/gradient.h"
#include "ops/core/normalize.h"
#include "ops/core/one_type.h"
#include "ops/gather_scatter/gather_scatter.h"

namespace sardonyx::ops {

namespace {

// --- Schema

// The name that ScatterElements had before opset 11.
void normalize_scatter(NormalizeContext& c) { c.node().op = "ScatterElements"; }

std::string reduction_of(const Node& node) { return node.get_string("reduction", "none"); }

// --- Shape

void require_operands(const InferContext& c) {
  require_indices(c, 1);
  require_type_of(c, 2, 0, "C2");
  const std::string reduction = reduction_of(c.node());
  for (const char* known : {"none", "add", "mul", "max", "min"}) {
    if (reduction == known) return;
  }
  throw Error("reduction '{}' is none of none, add, mul, max, min", reduction);
}

void infer_scatter_elements(InferContext& c) {
  require_operands(c);
  c.set(0, c.type(0));
  if (c.rank(0) < 0 || c.rank(1) < 0 || c.rank(2) < 0) return;
  c.require(c.rank(0) == c.rank(1) && c.rank(1) == c.rank(2), "C2",
            "data {}, indices {} and updates {} have different ranks", c.type(0).str(),
            c.type(1).str(), c.type(2).str());
  const int axis = checked_axis(c.node().get_int("axis", 0), c.rank(0));
  for (int i = 0; i < c.rank(0); ++i) {
    const Dim &x = c.dims(0)[i], &index = c.dims(1)[i];
    c.require(agree(index, c.dims(2)[i]) && (i == axis || !x.known() || index.value <= x.value),
              "C2", "axis {} of data {}, indices {} and updates {}", i, c.type(0).str(),
              c.type(1).str(), c.type(2).str());
  }
}

void infer_scatter_nd(InferContext& c) {
  require_operands(c);
  c.set(0, c.type(0));
  c.require(c.rank(1) != 0, "C3", "indices {} hold no tuples", c.type(1).str());
  if (c.rank(0) < 0 || c.rank(1) < 0 || c.rank(2) < 0 || !c.dims(1).back().known()) return;
  const int64_t length = c.dims(1).back().value;
  bool fits = length <= c.rank(0);
  std::vector<Dim> expected(c.dims(1).begin(), c.dims(1).end() - 1);
  if (fits) expected.insert(expected.end(), c.dims(0).begin() + length, c.dims(0).end());
  fits = fits && std::ssize(expected) == c.rank(2);
  for (int i = 0; fits && i < c.rank(2); ++i) fits = agree(expected[i], c.dims(2)[i]);
  c.require(fits, "C3", "updates {} don't fit data {} and indices {}", c.type(2).str(),
            c.type(0).str(), c.type(1).str());
}

// --- Gradient

// The operator of the node, and the one that reads where it wrote, with its axis.
class Places {
 public:
  Places(GradientContext& c, std::string reads)
      : b_(c.b()), writes_(c.node().op), reads_(std::move(reads)), indices_(c.x(1)) {
    if (c.node().has("axis")) axis_["axis"] = c.node().get_int("axis", 0);
  }

  Value* read(Value* data) { return b_.op(reads_, {data, indices_}, axis_); }
  Value* write(Value* data, Value* updates, const std::string& reduction = "none") {
    graph::Attributes attributes = axis_;
    if (reduction != "none") attributes["reduction"] = reduction;
    return b_.op(writes_, {data, indices_, updates}, attributes);
  }
  // 1 where they are equal, else 0.
  Value* equal(Value* a, Value* b) {
    return b_.op("Cast", {b_.op("Equal", {a, b})}, {{"to", static_cast<int64_t>(a->type.dtype)}});
  }

 private:
  OpBuilder& b_;
  std::string writes_, reads_;
  Value* indices_;
  graph::Attributes axis_;
};

void differentiate_product(GradientContext& c, Places places) {
  OpBuilder& b = c.b();
  Value *x = c.x(0), *updates = c.x(2);
  Value* ones = b.filled_like(x, 1);
  if (c.wants(0)) {
    c.set(0, b.op("Mul", {c.dy(0), places.write(ones, updates, "mul")}));
  }
  if (!c.wants(2)) return;
  // Zeros are counted apart: without its own factor the product isn't zero where no other is.
  Value* none = b.filled_like(updates, 0);
  Value* is_zero = places.equal(updates, none);
  Value* factor = b.op("Add", {updates, is_zero});
  Value* zeros = places.write(b.filled_like(x, 0), is_zero, "add");
  Value* product = b.op("Mul", {x, places.write(ones, factor, "mul")});
  Value* others = b.op("Div", {places.read(b.op("Mul", {c.dy(0), product})), factor});
  Value* all_counted = b.op("Equal", {places.read(zeros), is_zero});
  c.set(2, b.op("Where", {all_counted, others, none}));
}

void differentiate_extremum(GradientContext& c, Places places) {
  OpBuilder& b = c.b();
  Value* in_data = places.equal(c.x(0), c.y(0));
  Value* in_updates = places.equal(c.x(2), places.read(c.y(0)));
  Value* share = b.op("Div", {c.dy(0), places.write(in_data, in_updates, "add")});
  if (c.wants(0)) c.set(0, b.op("Mul", {in_data, share}));
  if (c.wants(2)) c.set(2, b.op("Mul", {in_updates, places.read(share)}));
}

// `reads`: the operator that reads where this one wrote.
Gradient scatter_gradient(const std::string& reads) {
  return gradient([reads](GradientContext& c) {
    Places places(c, reads);
    const std::string reduction = reduction_of(c.node());
    if (reduction == "mul") return differentiate_product(c, places);
    if (reduction == "max" || reduction == "min") return differentiate_extremum(c, places);
    if (c.wants(2)) c.set(2, places.read(c.dy(0)));
    if (!c.wants(0)) return;
    c.set(0, reduction == "add" ? c.dy(0) : places.write(c.dy(0), c.b().filled_like(c.x(2), 0)));
  });
}

// --- Definition

BatchRole scatter_elements_role(const Node& node, int) {
  const int rank = node.input(0)->type.rank();
  bool rows = front_axis(node.get_int("axis", 0), rank) != 0;
  for (int i = 0; i < 3; ++i) rows = rows && carries_batch(node, node.input(i));
  return rows ? BatchRole::kRows : BatchRole::kCouples;
}

OpDef writer(std::string name, std::string doc) {
  OpDef op;
  op.name = std::move(name);
  op.doc = std::move(doc);
  op.since = {11, 13, 16, 18};
  op.inputs = {{"data"}, {"indices", Presence::kRequired, "integer indices"}, {"updates"}};
  op.outputs = {{"output"}};
  op.attributes = {{"reduction", "string, default none: none, add, mul, max or min"}};
  return op;
}

}  // namespace

void register_scatter(OpRegistry& ops) {
  OpDef elements = writer("ScatterElements", "Writes one element per index.");
  elements.attributes.push_back({"axis", "int, default 0: the axis that the indices count"});
  elements.infer = infer_scatter_elements;
  elements.gradient = scatter_gradient("GatherElements");
  elements.batch = scatter_elements_role;
  OpDef old = elements;
  old.name = "Scatter";
  old.doc = "The old name of ScatterElements.";
  old.since = {9, 11};
  old.normalize = normalize_scatter;
  ops.add(std::move(elements));
  ops.add(std::move(old));

  OpDef nd = writer("ScatterND", "Writes slices by tuples of indices.");
  nd.infer = infer_scatter_nd;
  nd.gradient = scatter_gradient("GatherND");
  ops.add(std::move(nd));
}

}  // namespace sardonyx::ops
