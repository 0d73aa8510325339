// y = (x - mean) / sqrt(variance + epsilon) * scale + bias, over groups of elements of one row:
//
// LayerNormalization     all axes from `axis` on            scale, bias: one number per element
// RMSNormalization       the same, without mean and bias: x / sqrt(mean of x^2 + epsilon) * scale
// GroupNormalization     C / num_groups channels and all axes behind; scale, bias [C]
// InstanceNormalization  one channel and all axes behind; scale, bias [C]
// Inputs   x   scale   bias (LayerNormalization: optional; RMSNormalization: none)
// Output   y   and of LayerNormalization: mean and inv_std_dev [.., 1, 1], of type stash_type
// N1 x, scale, bias are of one floating type       N2 axis in range; channels need two axes or more
// N3 num_groups >= 1 and C mod num_groups = 0      N4 scale fits, and bias is as scale
// N5 stash_type is float or double where mean or inv_std_dev is read
// N6 epsilon is finite and at least 0
// Private  per_group = 1: scale and bias [num_groups], as below opset 21.
//          A scale that is 1 along its last axes is spread over them.
// Gradient dx = NormGradData(x, scale, dy, dmean, dinv)   dscale = NormGradScale(x, dy)
//          dbias = sum of dy. Statistics are computed again from x, so y, mean and inv_std_dev are
//          not read. `form` and the attributes of the forward operator say what a group is.
// Statistics are sums around the mean, in double in the end: a large mean costs no digits. Those of
// no element (an axis of size 0) are NaN.
// Source   ONNX LayerNormalization-17, RMSNormalization-23, GroupNormalization-18, 21,
//          InstanceNormalization-1, 6, 22
#include "ops/norm/norm.h"

#include <algorithm>

#include "ops/core/axes.h"
#include "ops/core/elementwise.h"
#include "ops/core/epsilon.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/core/normalize.h"
#include "ops/core/one_type.h"

namespace sardonyx::ops {

namespace norm {

Form form_of(const Node& node) {
  const std::string form = node.domain == kDomain ? node.get_string(kForm, "") : node.op;
  if (form == "LayerNormalization") return Form::kLayer;
  if (form == "RMSNormalization") return Form::kRms;
  CHECK(form == "GroupNormalization" || form == "InstanceNormalization", "{}: form {}",
        node.label(), form);
  return Form::kGroup;
}

int64_t groups_of(const Node& node, int64_t channels) {
  if (node.op == "InstanceNormalization") return channels;
  return node.get_int("num_groups", channels);
}

int first_axis(const Node& node, int rank) {
  if (form_of(node) == Form::kGroup) {
    if (rank >= 2) return 1;
    throw ConstraintError("N2", "x has {} axes, expected a batch and channels", rank);
  }
  const int64_t axis = node.get_int("axis", -1);
  if (axis < -rank || axis >= rank) {
    throw ConstraintError("N2", "axis {} is out of range for a value with {} axes", axis, rank);
  }
  return front_axis(axis, rank);
}

NormGeometry NormGeometry::of(const Node& node, const std::vector<int64_t>& x, int64_t params) {
  NormGeometry g;
  const int axis = first_axis(node, static_cast<int>(x.size()));
  int64_t row = 1;
  for (int i = 0; i < static_cast<int>(x.size()); ++i) (i < axis ? g.rows : row) *= x[i];
  g.params = params;
  g.span = params == 0 ? 0 : row / params;
  if (form_of(node) == Form::kGroup) {
    g.groups = std::max<int64_t>(groups_of(node, x[1]), 1);  // x may have no channels
  }
  if (form_of(node) == Form::kRms) g.centring = Centring::kNone;
  g.epsilon = node.get_float("epsilon", 1e-5);
  return g;
}

}  // namespace norm

namespace {

using norm::Form;

// --- Schema

const AttributeDef kEpsilon = {"epsilon", "float, default 1e-5: added to the variance"};
const AttributeDef kAxis = {"axis", "int, default -1: the first axis that is normalised over"};
const AttributeDef kGroups = {"num_groups", "int: parts that the channels fall into"};
const AttributeDef kStash = {"stash_type",
                             "int, default 1: element type of the statistics that are outputs"};

void normalize_group(NormalizeContext& c) {
  if (c.opset() < 21) c.node().attributes[norm::kPerGroup] = int64_t{1};
}

// Written out, so that it is converted together with the graph's floats.
void normalize_layer(NormalizeContext& c) {
  c.node().attributes.try_emplace("stash_type", static_cast<int64_t>(DType::kFloat32));
}

// --- Shape

void require_types(const InferContext& c, int inputs) {
  require_floating(c, 0, "N1");
  require_one_type(c, 0, inputs - 1, "N1");
  require_epsilon(c, "N6");
}

// Scale may be 1 along its last axes only: there it is spread. `x`: the normalised axes.
bool spreads_over(const std::vector<Dim>& scale, const std::vector<Dim>& x) {
  size_t own = scale.size();
  while (own > 0 && scale[own - 1].value == 1) --own;
  // Leading ones that x doesn't have are no axes.
  const size_t extra = scale.size() > x.size() ? scale.size() - x.size() : 0;
  for (size_t i = 0; i < std::min(extra, own); ++i) {
    if (scale[i].value != 1) return false;
  }
  if (own <= extra) return true;  // one number for all
  if (scale.size() < x.size()) return false;
  for (size_t i = extra; i < own; ++i) {
    if (!agree(scale[i], x[i - extra])) return false;
  }
  return true;
}

void require_like_scale(const InferContext& c) {
  if (!c.has(2) || c.rank(1) < 0 || c.rank(2) < 0) return;
  const auto& scale = c.dims(1);
  const auto& bias = c.dims(2);
  const bool fits = std::equal(scale.begin(), scale.end(), bias.begin(), bias.end(), agree);
  c.require(fits, "N4", "bias is {}, but scale is {}", graph::shape_str(bias),
            graph::shape_str(scale));
}

void require_layer_scale(const InferContext& c, int axis) {
  if (c.rank(1) < 0) return;
  c.require(c.rank(1) <= c.rank(0), "N4", "scale is {}, but x is {}", graph::shape_str(c.dims(1)),
            graph::shape_str(c.dims(0)));
  const std::vector<Dim> normalised(c.dims(0).begin() + axis, c.dims(0).end());
  c.require(spreads_over(c.dims(1), normalised), "N4",
            "scale is {}, expected the normalised axes {} (or 1 along the last ones)",
            graph::shape_str(c.dims(1)), graph::shape_str(normalised));
}

DType stash_type(const InferContext& c) {
  const auto dtype = static_cast<DType>(c.node().get_int("stash_type", 1));
  const bool read = c.wants(1) || c.wants(2);
  c.require(!read || dtype == DType::kFloat32 || dtype == DType::kFloat64, "N5",
            "stash_type is {}, expected 1 (float) or 11 (double)", static_cast<int>(dtype));
  return dtype;
}

void infer_layer(InferContext& c) {
  require_types(c, 3);
  infer_same(c);
  require_like_scale(c);
  const DType stash = stash_type(c);
  if (c.rank(0) < 0) {
    c.set_unranked(1, stash);
    c.set_unranked(2, stash);
    return;
  }
  const int axis = norm::first_axis(c.node(), c.rank(0));
  require_layer_scale(c, axis);
  std::vector<Dim> dims = c.dims(0);
  std::fill(dims.begin() + axis, dims.end(), Dim(1));
  c.set(1, stash, dims);
  c.set(2, stash, dims);
}

void infer_rms(InferContext& c) {
  require_types(c, 2);
  infer_same(c);
  if (c.rank(0) >= 0) require_layer_scale(c, norm::first_axis(c.node(), c.rank(0)));
}

void require_vector(const InferContext& c, int input, const Dim& length) {
  if (c.rank(input) < 0) return;
  const std::vector<Dim>& dims = c.dims(input);
  c.require(dims.size() == 1 && agree(dims[0], length), "N4", "input {} is {}, expected {}", input,
            graph::shape_str(dims), graph::shape_str(std::vector<Dim>{length}));
}

void infer_group(InferContext& c) {
  require_types(c, 3);
  infer_same(c);
  if (c.rank(0) < 0) return;
  norm::first_axis(c.node(), c.rank(0));
  const Dim channels = c.dims(0)[1];
  Dim params = channels;
  if (c.node().op == "GroupNormalization") {
    const int64_t groups = c.node().get_int("num_groups", 0);
    c.require(groups >= 1 && (!channels.known() || channels.value % groups == 0), "N3",
              "num_groups {} does not divide the channels of x {}", groups,
              graph::shape_str(c.dims(0)));
    if (c.node().get_int(norm::kPerGroup, 0) != 0) params = Dim(groups);
  }
  require_vector(c, 1, params);
  require_vector(c, 2, params);
}

void infer_grad_data(InferContext& c) {
  require_types(c, 5);
  if (c.rank(0) >= 0) norm::first_axis(c.node(), c.rank(0));
  c.require(c.rank(0) < 0 || c.rank(2) < 0 || c.rank(0) == c.rank(2), "N4", "dy is {}, but x is {}",
            c.type(2).str(), c.type(0).str());
  infer_same(c);
}

void infer_grad_scale(InferContext& c) {
  require_types(c, 2);
  if (c.rank(0) >= 0) norm::first_axis(c.node(), c.rank(0));
  c.require(c.rank(0) < 0 || c.rank(1) < 0 || c.rank(0) == c.rank(1), "N4", "dy is {}, but x is {}",
            c.type(1).str(), c.type(0).str());
  c.set(0, c.dtype(0), graph::to_dims(c.node().get_ints("scale_shape", {})));
}

// --- Gradient

graph::Attributes group_attributes(const Node& node, const Value* x) {
  graph::Attributes attributes{{norm::kForm, node.op},
                               {"epsilon", node.get_float("epsilon", 1e-5)}};
  if (norm::form_of(node) == Form::kGroup) {
    attributes["num_groups"] = norm::groups_of(node, x->type.dims[1].value);
  } else {
    attributes["axis"] = node.get_int("axis", -1);
  }
  return attributes;
}

// Bias is one number per channel, or per group of them.
Value* channel_sum(GradientContext& c, Value* dy, const Value* bias) {
  std::vector<int64_t> shape = GradientContext::shape(dy);
  const int64_t numbers = bias->type.numel();
  if (shape[1] != numbers) {
    int64_t length = 1;
    for (size_t i = 1; i < shape.size(); ++i) length *= shape[i];
    shape = {0, numbers, length / numbers};  // 0: the rows of dy
    dy = c.b().op("Reshape", {dy, c.b().ints(shape)});
  }
  std::vector<int64_t> axes{0};
  for (size_t i = 2; i < shape.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  return c.b().op("ReduceSum", {dy, c.b().ints(axes)}, {{"keepdims", int64_t{0}}});
}

// Gradient of a statistic, in the type of x.
Value* statistic_gradient(GradientContext& c, int output) {
  Value* g = c.dy(output);
  const DType dtype = c.x(0)->type.dtype;
  if (g == nullptr || g->type.dtype == dtype) return g;
  return c.b().op("Cast", {g}, {{"to", static_cast<int64_t>(dtype)}});
}

void norm_gradient(GradientContext& c) {
  const graph::Attributes attributes = group_attributes(c.node(), c.x(0));
  Value* dy = c.dy_or_zero(0);
  if (c.wants(0)) {
    std::vector<Value*> inputs{c.x(0), c.x(1), dy};
    for (const int output : {1, 2}) {
      if (c.dy(output) == nullptr) continue;
      inputs.resize(3 + output);
      inputs.back() = statistic_gradient(c, output);
    }
    c.set(0, c.b().own("NormGradData", inputs, attributes));
  }
  if (c.wants(1)) {
    graph::Attributes shaped = attributes;
    shaped["scale_shape"] = GradientContext::shape(c.x(1));
    c.set(1, c.b().own("NormGradScale", {c.x(0), dy}, shaped));
  }
  if (!c.wants(2)) return;
  const bool channels = norm::form_of(c.node()) == Form::kGroup;
  c.set(2, channels ? channel_sum(c, dy, c.x(2)) : c.reduce_to(dy, c.x(2)));
}

// --- Definition

BatchRole rows_behind(const Node& node, int) {
  const Value* x = node.input(0);
  const bool apart = x->type.ranked && norm::first_axis(node, x->type.rank()) > 0 &&
                     carries_batch(node, x) && !carries_batch(node, node.input(1));
  return apart ? BatchRole::kRows : BatchRole::kCouples;
}

BatchRole scale_role(const Node& node, int) {
  const Value *x = node.input(0), *dy = node.input(1);
  const bool apart = x->type.ranked && norm::first_axis(node, x->type.rank()) > 0 &&
                     carries_batch(node, x) && carries_batch(node, dy);
  return apart ? BatchRole::kSum : BatchRole::kCouples;
}

ParameterSlot norm_slot(int slot) {
  return slot == 1   ? ParameterSlot::kScale
         : slot == 2 ? ParameterSlot::kBias
                     : ParameterSlot::kNone;
}

OpDef forward_op(const char* name, const char* doc, std::vector<int> since) {
  OpDef op;
  op.name = name;
  op.doc = doc;
  op.since = std::move(since);
  op.inputs = {{"x"}, {"scale"}, {"bias"}};
  op.outputs = {{"y"}};
  op.attributes = {kEpsilon};
  op.gradient = gradient(norm_gradient);
  op.hint = hint_at_epsilon;
  op.batch = rows_behind;
  op.parameter_slot = norm_slot;
  return op;
}

OpDef layer_op() {
  OpDef op = forward_op("LayerNormalization", "Mean 0 and variance 1 over the last axes.", {17});
  op.inputs[2].presence = Presence::kOptional;
  op.outputs.push_back({"mean", Presence::kOptional});
  op.outputs.push_back({"inv_std_dev", Presence::kOptional});
  op.attributes.insert(op.attributes.end(), {kAxis, kStash});
  op.dtype_attributes = {"stash_type"};
  op.normalize = normalize_layer;
  op.infer = infer_layer;
  return op;
}

OpDef rms_op() {
  OpDef op = forward_op("RMSNormalization", "Root mean square 1 over the last axes.", {23});
  op.inputs.pop_back();
  op.attributes.insert(op.attributes.end(), {kAxis, kStash});
  op.infer = infer_rms;
  return op;
}

OpDef group_op() {
  OpDef op =
      forward_op("GroupNormalization", "Mean 0 and variance 1 over groups of channels.", {18, 21});
  op.attributes.insert(
      op.attributes.end(),
      {kGroups,
       kStash,
       {norm::kPerGroup, "private int, default 0: 1 has one scale per group", Writer::kRules}});
  op.normalize = normalize_group;
  op.infer = infer_group;
  return op;
}

OpDef instance_op() {
  OpDef op =
      forward_op("InstanceNormalization", "Mean 0 and variance 1 over each channel.", {1, 6, 22});
  op.infer = infer_group;
  return op;
}

OpDef gradient_op(const char* name, const char* doc) {
  OpDef op;
  op.domain = kDomain;
  op.name = name;
  op.doc = doc;
  op.attributes = {
      kEpsilon, kAxis, kGroups, {norm::kForm, "string, required: name of the forward operator"}};
  op.gradient = not_differentiable("second derivative of a normalisation");
  return op;
}

OpDef grad_data_op() {
  OpDef op = gradient_op("NormGradData", "Gradient of a normalisation with respect to x.");
  op.inputs = {
      {"x"}, {"scale"}, {"dy"}, {"dmean", Presence::kOptional}, {"dinv", Presence::kOptional}};
  op.outputs = {{"dx"}};
  op.infer = infer_grad_data;
  op.batch = rows_behind;
  return op;
}

OpDef grad_scale_op() {
  OpDef op = gradient_op("NormGradScale", "Gradient of a normalisation with respect to scale.");
  op.inputs = {{"x"}, {"dy"}, {"acc", Presence::kOptional, "accumulator of the gradient"}};
  op.outputs = {{"dscale"}};
  op.attributes.push_back({"scale_shape", "ints, required: shape of scale"});
  op.infer = infer_grad_scale;
  op.batch = scale_role;
  op.accumulate_input = 2;
  return op;
}

}  // namespace

void register_norm(OpRegistry& ops) {
  ops.add(layer_op());
  ops.add(rms_op());
  ops.add(group_op());
  ops.add(instance_op());
  ops.add(grad_data_op());
  ops.add(grad_scale_op());
}

}  // namespace sardonyx::ops
