// Batch normalisation in training, in parts that a region can run per block of images: sums over
// rows and what is computed row by row are operators of their own.
//
// BatchNormSums(x) -> sums: double [3, C]: count, sum and sum of squares of each channel.
// BatchNormMoments(sums) -> mean, var, count: double [C], [C], []. The population variance; 0 of
//   nothing.
// BatchNormApply(x, scale, bias, mean, var, count, addend) -> y: as BatchNormalization, but mean
//   and var are those of x itself, over `count` values: the gradient for x includes the one through
//   them, and they have none of their own. The addend, then the activation follow.
// BatchNormRunning(mean, var, batch_mean, batch_var, count) -> mean', var': momentum * old +
//   (1 - momentum) * batch; sample_variance 1 takes count / (count - 1) times the variance.
// BatchNormGradSums(dy, x, mean, var, second, y, scale, bias) -> dbias, dscale, dz: double [C], and
//   the gradient they are the sums of: dy + second, 0 where y isn't above 0. Instead of y, scale
//   and bias say what it was: x normalised. Without all of them dz is dy.
// BatchNormGradData(dy, scale, var, x, mean, dbias, dscale, count, bias, second) -> dx, sums of dx
//   [C]. Without x and what follows mean and var are constants; with them dbias and dscale are
//   those of all `count` values. With bias dy + second is 0 where x normalised isn't above 0.
// CommitStatistic(old, pending, scale, replicas) -> next: pending / replicas where scale is finite,
//   else old (the step is refused). Without replicas: pending.
//
// Sums are kept in double: with float data the variance is right to 1e-16 mean^2 / var.
//
// S1 x is floating with at least one axis    S2 per-channel operands are floating, [C]
// S3 sums has the type of BatchNormSums      S4 old and pending have one type
// S5 activation is Relu or left out
#include <algorithm>

#include "ops/batch_norm/geometry.h"
#include "ops/core/elementwise.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/core/step_op.h"

namespace sardonyx::ops::batch_norm {

// --- Schema

int64_t positions_of(const TensorType& x) {
  int64_t positions = 1;
  for (int axis = 2; axis < x.rank(); ++axis) positions *= x.dims[axis].value;
  return positions;
}

Planes planes_of(const TensorType& x) {
  Planes planes;
  planes.lanes = std::max(x.layout.lane_count(), 1);
  const int64_t images = x.dims[0].value;
  planes.rows = (images + planes.lanes - 1) / planes.lanes;
  planes.channels = x.rank() > 1 ? x.dims[1].value : 1;
  planes.plane = positions_of(x) * planes.lanes;
  planes.valid = images % planes.lanes == 0 ? planes.lanes : images % planes.lanes;
  return planes;
}

BatchRole rows_of_first(const Node& node, int) {
  return carries_batch(node, node.input(0)) ? BatchRole::kRows : BatchRole::kCouples;
}
BatchRole sum_of_first(const Node& node, int) {
  return carries_batch(node, node.input(0)) ? BatchRole::kSum : BatchRole::kCouples;
}

namespace {

constexpr double kDefaultEpsilon = 1e-5;
constexpr const char* kRelu = "Relu";

// `role` when these inputs carry the batch, as far as they are there.
BatchRole role_if_carried(const Node& node, std::initializer_list<int> inputs, BatchRole role) {
  const bool all = std::all_of(inputs.begin(), inputs.end(), [&](int i) {
    return node.input(i) == nullptr || carries_batch(node, node.input(i));
  });
  return all ? role : BatchRole::kCouples;
}

BatchRole role_of_apply(const Node& node, int) {
  return role_if_carried(node, {0, 6}, BatchRole::kRows);
}
BatchRole role_of_grad_sums(const Node& node, int slot) {
  return role_if_carried(node, {0, 1, 4, 5}, slot == 2 ? BatchRole::kRows : BatchRole::kSum);
}
BatchRole role_of_grad_data(const Node& node, int slot) {
  return role_if_carried(node, {0, 3, 9}, slot == 1 ? BatchRole::kSum : BatchRole::kRows);
}

// --- Shape

Dim channels_of(const InferContext& context, int x) {
  require_floating(context, x, "S1");
  const TensorType& type = context.type(x);
  context.require(!type.ranked || type.rank() >= 1, "S1", "input {} has no axes", x);
  return !type.ranked ? Dim() : type.rank() > 1 ? Dim(type.dims[1].value) : Dim(1);
}

void require_per_channel(const InferContext& context, int first, int last, const Dim& channels) {
  for (int i = first; i <= last; ++i) {
    if (!context.has(i)) continue;
    require_floating(context, i, "S2");
    const TensorType& type = context.type(i);
    const bool fits =
        !type.ranked || (type.rank() == 1 && (!type.dims[0].known() || !channels.known() ||
                                              type.dims[0].value == channels.value));
    context.require(fits, "S2", "input {} has type {}, expected one entry for each of {} channels",
                    i, type.str(), channels.value);
  }
}

void infer_sums(InferContext& context) {
  context.set(0, DType::kFloat64, {Dim(3), channels_of(context, 0)});
}

void infer_moments(InferContext& context) {
  const TensorType& sums = context.type(0);
  context.require(sums.dtype == DType::kFloat64 && sums.rank() == 2 && sums.dims[0].value == 3,
                  "S3", "sums has type {}, expected double[3,C]", sums.str());
  context.set(0, DType::kFloat64, {sums.dims[1]});
  context.set(1, DType::kFloat64, {sums.dims[1]});
  context.set(2, DType::kFloat64, {});
}

void require_like_first(InferContext& context, std::initializer_list<int> inputs) {
  for (const int i : inputs) {
    if (!context.has(i)) continue;
    context.require(context.type(i).dtype == context.dtype(0) &&
                        (!context.type(i).is_static() || !context.type(0).is_static() ||
                         context.type(i).shape() == context.type(0).shape()),
                    "S1", "input {} has type {}, expected {}", i, context.type(i).str(),
                    context.type(0).str());
  }
}

void infer_apply(InferContext& context) {
  require_per_channel(context, 1, 4, channels_of(context, 0));
  require_like_first(context, {6});
  const std::string activation = context.node().get_string(kActivation, "");
  context.require(activation.empty() || activation == kRelu, "S5",
                  "activation is '{}', expected {} or none", activation, kRelu);
  infer_same(context);
}

void infer_running(InferContext& context) {
  const TensorType& mean = context.type(0);
  require_per_channel(context, 0, 3, mean.rank() == 1 ? mean.dims[0] : Dim());
  context.set(0, mean);
  context.set(1, context.type(1));
}

void infer_grad_sums(InferContext& context) {
  infer_same_shapes(context, 0, 1, "S1");
  const Dim channels = channels_of(context, 0);
  require_per_channel(context, 2, 3, channels);
  require_like_first(context, {4, 5});
  require_per_channel(context, 6, 7, channels);
  context.set(0, DType::kFloat64, {channels});
  context.set(1, DType::kFloat64, {channels});
  context.set(2, context.type(0));
}

void infer_grad_data(InferContext& context) {
  const Dim channels = channels_of(context, 0);
  require_per_channel(context, 1, 2, channels);
  require_per_channel(context, 4, 6, channels);
  require_per_channel(context, 8, 8, channels);
  require_like_first(context, {3, 9});
  infer_same(context);
  context.set(1, context.dtype(0), {channels});
}

void infer_commit(InferContext& context) { infer_same_shapes(context, 0, 1, "S4"); }

// --- Gradient

// What y was masks dy: where there is an addend, y itself does, and dz, the gradient of the addend,
// is written once for all its readers; else what x gives again does, wherever dy is read.
void gradient_through_statistics(GradientContext& g) {
  OpBuilder& b = g.b();
  Value* dz = g.dy_or_zero(0);
  Value *x = g.x(0), *scale = g.x(1), *mean = g.x(3), *var = g.x(4), *count = g.x(5);
  const graph::Attributes epsilon{{"epsilon", g.node().get_float("epsilon", kDefaultEpsilon)}};
  const bool masked = !g.node().get_string(kActivation, "").empty();
  const bool by_y = masked && g.x(6) != nullptr, by_x = masked && !by_y;
  std::vector<Value*> summed{dz, x, mean, var};
  std::vector<std::string> sums_names{"dbias", "dscale"};
  if (by_y) {
    summed.insert(summed.end(), {nullptr, g.y(0)});
    sums_names.push_back("dz");
  }
  if (by_x) summed.insert(summed.end(), {nullptr, nullptr, scale, g.x(2)});
  const Node* sums = b.node(kDomain, "BatchNormGradSums", summed, sums_names, epsilon);
  if (by_y) dz = sums->output(2);
  if (g.wants(0)) {
    std::vector<Value*> operands{dz, scale, var, x, mean, sums->output(0), sums->output(1), count};
    if (by_x) operands.push_back(g.x(2));
    g.set(0, b.own("BatchNormGradData", operands, epsilon));
  }
  for (const auto& [slot, sum] : {std::pair{1, 1}, {2, 0}}) {
    if (!g.wants(slot)) continue;
    const auto dtype = static_cast<int64_t>(g.x(slot)->type.dtype);
    g.set(slot, b.op("Cast", {sums->output(sum)}, {{"to", dtype}}));
  }
  if (g.wants(6)) g.set(6, dz);
}

// --- Definition

OpDef own(const char* name, const char* doc, std::vector<Port> inputs, std::vector<Port> outputs) {
  OpDef op;
  op.domain = kDomain;
  op.name = name;
  op.doc = doc;
  op.inputs = std::move(inputs);
  op.outputs = std::move(outputs);
  op.gradient = not_differentiable("second derivative of BatchNormalization");
  return op;
}

AttributeDef epsilon_attribute() { return {"epsilon", "float, default 1e-5: added to var"}; }

OpDef sums() {
  OpDef op =
      own("BatchNormSums", "Count, sum and sum of squares of each channel.", {{"x"}}, {{"sums"}});
  op.infer = infer_sums;
  op.batch = sum_of_first;
  op.narrow = Narrow::kFollows;
  return op;
}

OpDef moments() {
  OpDef op = own("BatchNormMoments", "Mean and population variance from sums.", {{"sums"}},
                 {{"mean"}, {"var"}, {"count"}});
  op.infer = infer_moments;
  op.shared_sums = {0};
  return op;
}

OpDef apply() {
  const char* reason = "part of the gradient for x";
  OpDef op = own("BatchNormApply", "Normalises x with its own statistics.",
                 {{"x"},
                  {"scale"},
                  {"bias"},
                  {"mean", Presence::kRequired, reason},
                  {"var", Presence::kRequired, reason},
                  {"count", Presence::kRequired, reason},
                  {"addend", Presence::kOptional}},
                 {{"y"}});
  op.attributes = {epsilon_attribute(),
                   {kActivation, "string, default none: Relu is what follows, addend included"}};
  op.infer = infer_apply;
  op.batch = role_of_apply;
  op.narrow = Narrow::kFollows;
  op.narrow_inputs = {0, 6};
  op.gradient = gradient(gradient_through_statistics);
  op.cheap = true;
  op.fusion.addend = 6;
  op.fusion.activations = {kRelu};
  return op;
}

OpDef running() {
  OpDef op = own("BatchNormRunning", "Moves running statistics towards those of the batch.",
                 {{"mean"}, {"var"}, {"batch_mean"}, {"batch_var"}, {"count"}},
                 {{"next_mean"}, {"next_var"}});
  op.attributes = {{"momentum", "float, default 0.9: share of the old value"},
                   {"sample_variance", "int, default 0: 1 divides by count - 1"}};
  op.infer = infer_running;
  op.gradient = not_differentiable("running statistics");
  return op;
}

OpDef grad_sums() {
  OpDef op = own("BatchNormGradSums", "Gradients of bias and scale of BatchNormalization.",
                 {{"dy"},
                  {"x"},
                  {"mean"},
                  {"var"},
                  {"second", Presence::kOptional},
                  {"y", Presence::kOptional},
                  {"scale", Presence::kOptional},
                  {"bias", Presence::kOptional}},
                 {{"dbias"}, {"dscale"}, {"dz", Presence::kOptional}});
  op.attributes = {epsilon_attribute()};
  op.infer = infer_grad_sums;
  op.batch = role_of_grad_sums;
  op.narrow = Narrow::kFollows;
  op.narrow_inputs = {0, 1, 4, 5};
  op.fusion.second = 4;
  op.fusion.summed = 2;
  op.fusion.sums = 0;
  return op;
}

OpDef grad_data() {
  OpDef op = own("BatchNormGradData", "Gradient of the input of BatchNormalization.",
                 {{"dy"},
                  {"scale"},
                  {"var"},
                  {"x", Presence::kOptional},
                  {"mean", Presence::kOptional},
                  {"dbias", Presence::kOptional},
                  {"dscale", Presence::kOptional},
                  {"count", Presence::kOptional},
                  {"bias", Presence::kOptional},
                  {"second", Presence::kOptional}},
                 {{"dx"}, {"sums", Presence::kOptional}});
  op.attributes = {epsilon_attribute()};
  op.infer = infer_grad_data;
  op.batch = role_of_grad_data;
  op.narrow = Narrow::kFollows;
  op.narrow_inputs = {0, 3, 9};
  op.fusion.second = 9;
  op.fusion.summed = 0;
  op.fusion.sums = 1;
  op.shared_sums = {5, 6};
  return op;
}

OpDef commit() {
  OpDef op = step_op("CommitStatistic", "What a running statistic is after the step.");
  op.inputs = {{"old"}, {"pending"}, {"scale"}, {"replicas", Presence::kOptional}};
  op.outputs = {{"next"}};
  op.infer = infer_commit;
  op.aliases = [](const Node&) { return std::vector<std::pair<int, int>>{{0, 0}}; };
  return op;
}

}  // namespace

void register_statistics(OpRegistry& ops) {
  for (const OpDef& op :
       {sums(), moments(), apply(), running(), grad_sums(), grad_data(), commit()}) {
    ops.add(op);
  }
}

}  // namespace sardonyx::ops::batch_norm
