// Concat and Split: parts of an axis put together and taken apart.
//
// Concat   y = x0, x1, ... one behind the other along axis
// Split    y0, y1, ... = x cut along axis: into the listed sizes, else into num_outputs parts of
//          which the last may be smaller, else into equal parts
//
// Inputs   Concat: x0, x1, ... of one type     Split: x; split int64[outputs] (optional, constant)
// C1 axis is given (Concat) and in range
// C2 Concat: equal types and ranks, and equal sizes beside the axis
// C3 Split: one size per output, none negative, their sum the size of the axis
// Gradient Concat: Split of dy (Slice when one input wants it). Split: Concat of the dy; parts that
//          no gradient reaches are zero (SliceGrad puts a run of parts into its place).
// Batch    rows when axis isn't 0 and all operands carry the batch.
// Source   ONNX Concat-13, Split-18
#include "ops/concat_split/concat_split.h"

#include <algorithm>
#include <numeric>

#include "ops/core/axes.h"
#include "ops/core/constraint.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/core/normalize.h"
#include "ops/core/one_type.h"
#include "ops/core/sizes.h"

namespace sardonyx::ops {

// --- Schema

std::vector<int64_t> split_sizes(const Node& node, int64_t size,
                                 const std::optional<std::vector<int64_t>>& listed) {
  const int64_t count = node.num_outputs();
  if (count == 0) throw ConstraintError("C3", "Split has no outputs");
  if (listed) {
    int64_t left = size;
    const bool fits = std::all_of(listed->begin(), listed->end(), [&](int64_t n) {
      if (n < 0 || n > left) return false;
      left -= n;
      return true;
    });
    if (std::ssize(*listed) != count || !fits || left != 0) {
      throw ConstraintError("C3", "{} outputs of sizes {} from an axis of size {}", count,
                            graph::shape_str(*listed), size);
    }
    return *listed;
  }
  const int64_t part = (size + count - 1) / count, last = size - part * (count - 1);
  if (last < 0 || (!node.has("num_outputs") && last != part)) {
    throw ConstraintError("C3", "an axis of size {} can't be cut into {} equal parts", size, count);
  }
  std::vector<int64_t> sizes(count, part);
  sizes.back() = last;
  return sizes;
}

namespace {

void normalize_concat(NormalizeContext& c) {
  if (c.opset() < 4 && !c.node().has("axis")) c.node().attributes["axis"] = int64_t{1};
}

void normalize_split(NormalizeContext& c) { c.attribute_to_input("split", 1); }

// --- Shape

void require_same_size(const InferContext& c, int input, int axis, const Dim& found,
                       const Dim& expected) {
  if (agree(found, expected)) return;
  const std::string& batch = c.node().graph()->batch_symbol;
  const bool is_batch = axis == 0 && !batch.empty() && expected.symbol == batch;
  c.fail("C2", "axis {} of input {} '{}' ({}) has size {}, expected {}{}", axis, input,
         c.node().input(input)->name, c.type(input).str(), found.value, expected.value,
         is_batch ? ": a batch size is baked into the model there; export it with a dynamic batch "
                    "axis"
                  : "");
}

void infer_concat(InferContext& c) {
  c.require(c.node().has("axis"), "C1", "attribute 'axis' is required");
  for (int i = 0; i < c.num_inputs(); ++i) {
    require_type_of(c, i, 0, "C2");
    if (c.rank(i) < 0) return c.set_unranked(0, c.dtype(0));
    c.require(c.rank(i) == c.rank(0), "C2", "input {} has type {}, input 0 {}", i, c.type(i).str(),
              c.type(0).str());
  }
  const int axis = checked_axis(c.node().get_int("axis", 0), c.rank(0));
  std::vector<Dim> dims = c.dims(0);
  for (int i = 1; i < c.num_inputs(); ++i) {
    for (int k = 0; k < c.rank(0); ++k) {
      const Dim& dim = c.dims(i)[k];
      if (k == axis) {
        dims[k] =
            dims[k].known() && dim.known() ? Dim(checked_sum(dims[k].value, dim.value)) : Dim();
      } else {
        require_same_size(c, i, k, dim, dims[k]);
        dims[k] = merged(dims[k], dim, c.node().graph()->batch_symbol);
      }
    }
  }
  c.set(0, c.dtype(0), std::move(dims));
}

void infer_split(InferContext& c) {
  std::optional<std::vector<int64_t>> listed;
  bool open = false;  // the sizes are not known yet
  if (c.has(1)) {
    listed = c.known_ints(1);
    open = !listed;
  }
  const int64_t count = c.node().get_int("num_outputs", c.num_outputs());
  c.require(count == c.num_outputs(), "C3", "num_outputs is {}, but the node has {} outputs", count,
            c.num_outputs());
  if (c.rank(0) < 0) {
    for (int i = 0; i < c.num_outputs(); ++i) c.set_unranked(i, c.dtype(0));
    return;
  }
  const int axis = checked_axis(c.node().get_int("axis", 0), c.rank(0));
  const Dim& whole = c.dims(0)[axis];
  std::vector<Dim> parts(c.num_outputs());
  if (!open && whole.known()) {
    parts = graph::to_dims(split_sizes(c.node(), whole.value, listed));
  } else if (listed && std::ssize(*listed) == c.num_outputs()) {
    parts = graph::to_dims(*listed);
  }
  if (c.num_outputs() == 1) parts[0] = whole;
  for (int i = 0; i < c.num_outputs(); ++i) {
    std::vector<Dim> dims = c.dims(0);
    dims[axis] = parts[i];
    c.set(i, c.dtype(0), std::move(dims));
  }
}

// --- Gradient

int axis_of(const Node& node) {
  return front_axis(node.get_int("axis", 0), node.input(0)->type.rank());
}

void concat_gradient(GradientContext& c) {
  const int64_t axis = axis_of(c.node());
  std::vector<int64_t> sizes;
  std::vector<int> wanted;
  std::vector<std::string> wishes(c.num_inputs());
  for (int i = 0; i < c.num_inputs(); ++i) {
    sizes.push_back(GradientContext::shape(c.x(i))[axis]);
    if (!c.wants(i)) continue;
    wanted.push_back(i);
    wishes[i] = "Split";
  }
  if (c.num_inputs() == 1 && c.wants(0)) return c.set(0, c.dy(0));
  if (wanted.size() == 1) {
    const int i = wanted[0];
    const int64_t start = std::accumulate(sizes.begin(), sizes.begin() + i, int64_t{0});
    c.set(i, c.b().op("Slice", {c.dy(0), c.b().ints({start}), c.b().ints({start + sizes[i]}),
                                c.b().ints({axis})}));
  } else if (!wanted.empty()) {
    const Node* split =
        c.b().node("", "Split", {c.dy(0), c.b().ints(sizes)}, wishes, {{"axis", axis}});
    for (int i : wanted) c.set(i, split->output(i));
  }
}

// Parts [begin, end) in their place, zeros around them.
Value* placed(GradientContext& c, int begin, int end, const std::vector<int64_t>& sizes) {
  const int64_t axis = axis_of(c.node());
  std::vector<Value*> parts;
  for (int i = begin; i < end; ++i) parts.push_back(c.dy(i));
  Value* run = parts.size() == 1 ? parts[0] : c.b().op("Concat", parts, {{"axis", axis}});
  if (begin == 0 && end == c.num_outputs()) return run;
  const std::vector<int64_t> shape = GradientContext::shape(c.x(0));
  std::vector<int64_t> starts(shape.size(), 0), steps(shape.size(), 1);
  starts[axis] = std::accumulate(sizes.begin(), sizes.begin() + begin, int64_t{0});
  return c.b().own("SliceGrad", {run}, {{"shape", shape}, {"starts", starts}, {"steps", steps}});
}

void split_gradient(GradientContext& c) {
  if (!c.wants(0)) return;
  std::optional<std::vector<int64_t>> listed;
  if (c.x(1) != nullptr) listed = c.x(1)->data.to_ints();
  const std::vector<int64_t> sizes =
      split_sizes(c.node(), GradientContext::shape(c.x(0))[axis_of(c.node())], listed);
  std::vector<Value*> runs;
  for (int i = 0; i < c.num_outputs(); ++i) {
    if (c.dy(i) == nullptr) continue;
    const int begin = i;
    while (i < c.num_outputs() && c.dy(i) != nullptr) ++i;
    runs.push_back(placed(c, begin, i, sizes));
  }
  if (runs.empty()) return c.set(0, c.b().filled_like(c.x(0), 0));
  c.set(0, runs.size() == 1 ? runs[0] : c.b().op("Sum", runs));
}

// --- Definition

BatchRole parts_role(const Node& node, int) {
  const TensorType& x = node.input(0)->type;
  if (!x.ranked || x.rank() == 0 || axis_of(node) == 0) return BatchRole::kCouples;
  const bool split = node.op == "Split";
  for (int i = 0; i < (split ? 1 : node.num_inputs()); ++i) {
    // A part without the batch axis has all rows, while a block of the others has a few.
    if (!carries_batch(node, node.input(i))) return BatchRole::kCouples;
  }
  return BatchRole::kRows;
}

}  // namespace

void register_concat_split(OpRegistry& ops) {
  OpDef concat;
  concat.name = "Concat";
  concat.doc = "Puts its inputs one behind the other along an axis.";
  concat.since = {1, 4, 11, 13};
  concat.inputs = {{"inputs", Presence::kVariadic}};
  concat.outputs = {{"concat_result"}};
  concat.attributes = {{"axis", "int, required (default 1 before opset 4): the axis"}};
  concat.normalize = normalize_concat;
  concat.infer = infer_concat;
  concat.gradient = gradient(concat_gradient);
  concat.batch = parts_role;
  concat.axes = AxisUse::kAxis;
  concat.narrow = Narrow::kFollows;
  ops.add(std::move(concat));

  OpDef split;
  split.name = "Split";
  split.doc = "Cuts its input into parts along an axis.";
  split.since = {1, 2, 11, 13, 18};
  split.inputs = {{"input"}, {"split", Presence::kOptional, "integer sizes"}};
  split.outputs = {{"outputs", Presence::kVariadic}};
  split.attributes = {{"axis", "int, default 0: the axis"},
                      {"num_outputs", "int: parts of equal size, the last one may be smaller"}};
  split.normalize = normalize_split;
  split.infer = infer_split;
  split.gradient = gradient(split_gradient);
  split.batch = parts_role;
  split.narrow = Narrow::kFollows;
  ops.add(std::move(split));
}

}  // namespace sardonyx::ops
