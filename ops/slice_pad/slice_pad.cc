// Slice and Pad: windows of an array, smaller or larger than it. (CenterCropPad:
// center_crop_pad.cc.)
//
// Slice      y[i] = x[start + i step] along the listed axes; negative starts and ends count from
//            the back and are clamped, a negative step walks back
// SliceGrad  dx = 0, then dx[start + i step] = dy[i]
// Pad        y[i] = x[i - begin] inside, else constant, reflect, edge or wrap; negative pads crop,
//            before anything is added
// PadGrad    dx[s] = sum of the dy[i] whose y[i] came from x[s]
//
// Inputs   Slice: x; starts, ends int[k]; axes, steps (optional)
//          Pad: x; pads int64[2k], begins then ends; constant_value, axes (optional)
//          All but x and constant_value are constant.
// C1 axes are in range, none twice
// C2 as many starts, ends, steps as axes; two pads per axis
// C3 no step is 0
// C4 no size is negative; reflect, edge and wrap have an element to repeat
// C5 the mode is known
// C6 constant_value has one element of the type of x
// Gradient SliceGrad(dy), PadGrad(dy) with the shape of x as attribute; theirs are Slice and Pad.
// Batch    an axis that comes through whole keeps its symbol; rows when axis 0 does.
// Source   ONNX Slice-13, Pad-25
#include "ops/slice_pad/slice_pad.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "ops/core/axes.h"
#include "ops/core/constraint.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/core/normalize.h"
#include "ops/core/one_type.h"

namespace sardonyx::ops {

SliceRange slice_range(int64_t start, int64_t end, int64_t step, int64_t dim) {
  const auto from_front = [dim](int64_t position) {
    return position < 0 ? position + dim : position;
  };
  // A step over the whole axis and a longer one take the same elements; strides can't overflow
  // then.
  const int64_t longest = std::max<int64_t>(dim, 1);
  step = std::clamp(step, -longest, longest);
  if (step > 0) {
    start = std::clamp<int64_t>(from_front(start), 0, dim);
    end = std::clamp<int64_t>(from_front(end), 0, dim);
    return {start, end > start ? (end - start - 1) / step + 1 : 0, step};
  }
  start = std::clamp<int64_t>(from_front(start), std::min<int64_t>(0, dim - 1), dim - 1);
  end = std::clamp<int64_t>(from_front(end), -1, dim - 1);
  return {start, start > end ? (start - end - 1) / -step + 1 : 0, step};
}

PadMode pad_mode(const Node& node) {
  const std::string mode = node.get_string("mode", "constant");
  if (mode == "constant") return PadMode::kConstant;
  if (mode == "reflect") return PadMode::kReflect;
  if (mode == "edge") return PadMode::kEdge;
  if (mode == "wrap") return PadMode::kWrap;
  throw ConstraintError("C5", "mode '{}' is none of constant, reflect, edge, wrap", mode);
}

namespace {

// --- Schema

void normalize_slice(NormalizeContext& c) {
  c.attribute_to_input("starts", 1);
  c.attribute_to_input("ends", 2);
  c.attribute_to_input("axes", 3);
}

void normalize_pad(NormalizeContext& c) {
  auto& attributes = c.node().attributes;
  if (const auto old = attributes.find("paddings"); old != attributes.end()) {
    attributes["pads"] = old->second;
    attributes.erase("paddings");
  }
  c.attribute_to_input("pads", 1);
  c.attribute_to_input("value", 2);
}

std::vector<int64_t> all_axes(size_t rank) {
  std::vector<int64_t> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

// --- Shape

// Size of a sliced axis whose own size isn't known: only "from the start to the end" is clear.
Dim open_slice(const Dim& dim, int64_t start, int64_t end, int64_t step) {
  const bool whole = start == 0 && step == 1 && end >= std::numeric_limits<int32_t>::max();
  return whole ? dim : Dim();
}

void infer_slice(InferContext& c) {
  const auto starts = c.known_ints(1), ends = c.known_ints(2);
  const auto axes = c.has(3) ? c.known_ints(3) : std::nullopt;
  const auto steps = c.has(4) ? c.known_ints(4) : std::nullopt;
  const bool known = starts && ends && (axes || !c.has(3)) && (steps || !c.has(4));
  if (c.rank(0) < 0) return c.set_unranked(0, c.dtype(0));
  if (!known) return c.set(0, c.dtype(0), std::vector<Dim>(c.dims(0).size()));

  const size_t count = starts->size();
  c.require(ends->size() == count && (!axes || axes->size() == count) &&
                (!steps || steps->size() == count) && (axes || count <= c.dims(0).size()),
            "C2", "starts {}, ends {}, axes {} and steps {} don't go together",
            graph::shape_str(*starts), graph::shape_str(*ends),
            axes ? graph::shape_str(*axes) : "left out",
            steps ? graph::shape_str(*steps) : "left out");
  const std::vector<int> at = checked_axes(axes ? *axes : all_axes(count), c.rank(0));
  std::vector<Dim> dims = c.dims(0);
  for (size_t i = 0; i < count; ++i) {
    const int64_t step = steps ? (*steps)[i] : 1;
    c.require(step != 0, "C3", "step of axis {} is 0", at[i]);
    Dim& dim = dims[at[i]];
    if (!dim.known()) {
      dim = open_slice(dim, (*starts)[i], (*ends)[i], step);
      continue;
    }
    const SliceRange range = slice_range((*starts)[i], (*ends)[i], step, dim.value);
    const bool whole = range.start == 0 && step == 1 && range.count == dim.value;
    if (!whole) dim = Dim(range.count);
  }
  c.set(0, c.dtype(0), std::move(dims));
}

void infer_slice_grad(InferContext& c) {
  const std::vector<int64_t> shape = c.node().get_ints("shape", {});
  const SliceBox box{c.node().get_ints("starts", {}), c.node().get_ints("steps", {})};
  c.require(box.starts.size() == shape.size() && box.steps.size() == shape.size() &&
                (c.rank(0) < 0 || c.rank(0) == std::ssize(shape)),
            "C2", "shape {}, starts {} and steps {} don't go with dy {}", graph::shape_str(shape),
            graph::shape_str(box.starts), graph::shape_str(box.steps), c.type(0).str());
  std::vector<Dim> dims = graph::to_dims(shape);
  for (int i = 0; i < c.rank(0); ++i) {
    const Dim& dy = c.dims(0)[i];
    if (box.starts[i] == 0 && box.steps[i] == 1 && agree(dims[i], dy)) {
      dims[i] = merged(dims[i], dy, c.node().graph()->batch_symbol);
    }
  }
  c.set(0, c.dtype(0), std::move(dims));
}

void require_fill(const InferContext& c) {
  if (!c.has(2)) return;
  const TensorType& type = c.type(2);
  c.require(!type.is_static() || type.numel() == 1, "C6", "constant_value has type {}", type.str());
  require_type_of_number(c, 2, 0, "C6");
}

Dim padded(const InferContext& c, const Dim& dim, const PadAxis& axis, PadMode mode, int i) {
  if (axis.identity()) return dim;
  if (!dim.known()) return {};
  c.require(axis.size() >= 0, "C4", "axis {} of {} with pads {} and {} has size {}", i,
            c.type(0).str(), axis.begin, axis.end, axis.size());
  c.require(mode == PadMode::kConstant || axis.kept() > 0 || axis.size() == 0, "C4",
            "axis {} of {} has no element to repeat", i, c.type(0).str());
  return {axis.size()};
}

void infer_pad(InferContext& c) {
  const PadMode mode = pad_mode(c.node());
  require_fill(c);
  const auto pads = c.known_ints(1);
  const auto axes = c.has(3) ? c.known_ints(3) : std::nullopt;
  if (c.rank(0) < 0) return c.set_unranked(0, c.dtype(0));
  if (!pads || (c.has(3) && !axes)) {
    return c.set(0, c.dtype(0), std::vector<Dim>(c.dims(0).size()));
  }
  const std::vector<int> at = checked_axes(axes ? *axes : all_axes(c.dims(0).size()), c.rank(0));
  const size_t count = at.size();
  c.require(pads->size() == 2 * count, "C2", "{} pads for {} axes of {}", pads->size(), count,
            c.type(0).str());
  std::vector<Dim> dims = c.dims(0);
  for (size_t i = 0; i < count; ++i) {
    Dim& dim = dims[at[i]];
    dim = padded(c, dim, {(*pads)[i], (*pads)[count + i], dim.value}, mode, at[i]);
  }
  c.set(0, c.dtype(0), std::move(dims));
}

void infer_pad_grad(InferContext& c) {
  pad_mode(c.node());
  const std::vector<int64_t> shape = c.node().get_ints("shape", {});
  const std::vector<int64_t> pads = c.node().get_ints("pads", {});
  c.require(pads.size() == 2 * shape.size() && (c.rank(0) < 0 || c.rank(0) == std::ssize(shape)),
            "C2", "shape {} and pads {} don't go with dy {}", graph::shape_str(shape),
            graph::shape_str(pads), c.type(0).str());
  std::vector<Dim> dims = graph::to_dims(shape);
  for (int i = 0; i < c.rank(0); ++i) {
    if (pads[i] == 0 && pads[shape.size() + i] == 0) {
      dims[i] = merged(dims[i], c.dims(0)[i], c.node().graph()->batch_symbol);
    }
  }
  c.set(0, c.dtype(0), std::move(dims));
}

// --- Gradient

std::optional<std::vector<int64_t>> constant_ints(const Value* value) {
  if (value == nullptr) return std::nullopt;
  CHECK(value->is_constant(), "'{}' is not constant", value->name);
  return value->data.to_ints();
}

void slice_gradient(GradientContext& c) {
  if (!c.wants(0)) return;
  const std::vector<int64_t> shape = GradientContext::shape(c.x(0));
  SliceBox box{std::vector<int64_t>(shape.size(), 0), std::vector<int64_t>(shape.size(), 1)};
  const auto starts = constant_ints(c.x(1)), ends = constant_ints(c.x(2));
  const auto axes = constant_ints(c.x(3)), steps = constant_ints(c.x(4));
  for (size_t i = 0; i < starts->size(); ++i) {
    const int axis = front_axis(axes ? (*axes)[i] : static_cast<int64_t>(i), c.x(0)->type.rank());
    const SliceRange range =
        slice_range((*starts)[i], (*ends)[i], steps ? (*steps)[i] : 1, shape[axis]);
    box.starts[axis] = range.start;
    box.steps[axis] = range.step;
  }
  c.set(0, c.b().own("SliceGrad", {c.dy(0)},
                     {{"shape", shape}, {"starts", box.starts}, {"steps", box.steps}}));
}

void slice_grad_gradient(GradientContext& c) {
  if (!c.wants(0)) return;
  const std::vector<int64_t> counts = GradientContext::shape(c.x(0));
  const std::vector<int64_t> starts = c.node().get_ints("starts", {});
  const std::vector<int64_t> steps = c.node().get_ints("steps", {});
  std::vector<int64_t> ends;
  for (size_t i = 0; i < counts.size(); ++i) {
    const int64_t end = starts[i] + steps[i] * counts[i];
    // Below 0 would count from the back.
    ends.push_back(end < 0 ? std::numeric_limits<int64_t>::min() : end);
  }
  c.set(0, c.b().op("Slice", {c.dy(0), c.b().ints(starts), c.b().ints(ends),
                              c.b().ints(all_axes(counts.size())), c.b().ints(steps)}));
}

void pad_gradient(GradientContext& c) {
  if (!c.wants(0)) return;
  const std::vector<int64_t> shape = GradientContext::shape(c.x(0));
  const std::vector<int64_t> listed = c.x(1)->data.to_ints();
  const std::vector<int64_t> axes = constant_ints(c.x(3)).value_or(all_axes(shape.size()));
  std::vector<int64_t> pads(2 * shape.size(), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int axis = front_axis(axes[i], c.x(0)->type.rank());
    pads[axis] = listed[i];
    pads[shape.size() + axis] = listed[axes.size() + i];
  }
  c.set(0,
        c.b().own(
            "PadGrad", {c.dy(0)},
            {{"shape", shape}, {"pads", pads}, {"mode", c.node().get_string("mode", "constant")}}));
}

void pad_grad_gradient(GradientContext& c) {
  if (!c.wants(0)) return;
  c.set(0, c.b().op("Pad", {c.dy(0), c.b().ints(c.node().get_ints("pads", {}))},
                    {{"mode", c.node().get_string("mode", "constant")}}));
}

// --- Definition

// The shape rules keep the batch symbol only on an axis 0 that comes through whole.
BatchRole window_role(const Node& node, int slot) {
  const bool rows = carries_batch(node, node.input(0)) && carries_batch(node, node.output(slot));
  return rows ? BatchRole::kRows : BatchRole::kCouples;
}

OpDef window(std::string domain, std::string name, std::string doc, std::vector<Port> inputs) {
  OpDef op;
  op.domain = std::move(domain);
  op.name = std::move(name);
  op.doc = std::move(doc);
  op.inputs = std::move(inputs);
  op.outputs = {{"output"}};
  op.batch = window_role;
  op.narrow = Narrow::kFollows;
  return op;
}

void register_slice(OpRegistry& ops) {
  OpDef slice = window("", "Slice", "A window of the input, with steps.",
                       {{"data"},
                        {"starts", Presence::kRequired, "integer positions"},
                        {"ends", Presence::kRequired, "integer positions"},
                        {"axes", Presence::kOptional, "integer axes"},
                        {"steps", Presence::kOptional, "integer steps"}});
  slice.since = {1, 10, 11, 13};
  slice.normalize = normalize_slice;
  slice.infer = infer_slice;
  slice.gradient = gradient(slice_gradient);
  ops.add(std::move(slice));

  OpDef grad = window(kDomain, "SliceGrad", "The input as a window of zeros.", {{"dy"}});
  grad.attributes = {{"shape", "ints: shape of the output"},
                     {"starts", "ints: position of the first element, per axis"},
                     {"steps", "ints: steps between elements, per axis"}};
  grad.infer = infer_slice_grad;
  grad.gradient = gradient(slice_grad_gradient);
  ops.add(std::move(grad));
}

void register_pad(OpRegistry& ops) {
  OpDef pad = window("", "Pad", "The input with a border around it.",
                     {{"data"},
                      {"pads", Presence::kRequired, "integer sizes"},
                      {"constant_value", Presence::kOptional, "the constant of a border"},
                      {"axes", Presence::kOptional, "integer axes"}});
  pad.since = {1, 2, 11, 13, 18, 19, 21, 23, 24, 25};
  pad.attributes = {{"mode", "string, default constant: constant, reflect, edge or wrap"}};
  pad.normalize = normalize_pad;
  pad.infer = infer_pad;
  pad.axes = AxisUse::kPads;
  pad.gradient = gradient(pad_gradient);
  ops.add(std::move(pad));

  OpDef grad =
      window(kDomain, "PadGrad", "Adds every element of a border to its source.", {{"dy"}});
  grad.attributes = {{"shape", "ints: shape of the output"},
                     {"pads", "ints: begins, then ends, of all axes"},
                     {"mode", "string, default constant: as Pad"}};
  grad.infer = infer_pad_grad;
  grad.gradient = gradient(pad_grad_gradient);
  ops.add(std::move(grad));
}

}  // namespace

void register_slice_pad(OpRegistry& ops) {
  register_slice(ops);
  register_pad(ops);
  register_center_crop_pad(ops);
}

}  // namespace sardonyx::ops
