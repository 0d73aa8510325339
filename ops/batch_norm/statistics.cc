// Batch normalisation in training, in parts that a region can run per block of images: sums over
// rows and what is computed row by row are operators of their own.
//
// BatchNormSums(x) -> sums: double [3, C]: count, sum and sum of squares of each channel.
// BatchNormMoments(sums) -> mean, var, count: double [C], [C], []. The population variance; 0 of
//   nothing.
// BatchNormApply(x, scale, bias, mean, var, count) -> y: as BatchNormalization, but mean and var
//   are those of x itself, over `count` values: the gradient for x includes the one through them,
//   and they have none of their own.
// BatchNormRunning(mean, var, batch_mean, batch_var, count) -> mean', var': momentum * old +
//   (1 - momentum) * batch; sample_variance 1 takes count / (count - 1) times the variance.
// BatchNormGradSums(dy, x, mean, var) -> dbias, dscale: double [C].
// BatchNormGradData(dy, scale, var, x, mean, dbias, dscale, count) -> dx. Without x and the rest
//   mean and var are constants; with them dbias and dscale are those of all `count` values.
// CommitStatistic(old, pending, scale, replicas) -> next: pending / replicas where scale is finite,
//   else old (the step is refused). Without replicas: pending.
//
// Sums are kept in double: with float data the variance is right to 1e-16 mean^2 / var.
//
// S1 x is floating with at least one axis    S2 per-channel operands are floating, [C]
// S3 sums has the type of BatchNormSums      S4 old and pending have one type
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

namespace {

bool first_carry(const Node& node, int count) {
  for (int i = 0; i < count; ++i) {
    if (!carries_batch(node, node.input(i))) return false;
  }
  return true;
}

}  // namespace

BatchRole rows_of_first(const Node& node, int) {
  return first_carry(node, 1) ? BatchRole::kRows : BatchRole::kCouples;
}
BatchRole sum_of_first(const Node& node, int) {
  return first_carry(node, 1) ? BatchRole::kSum : BatchRole::kCouples;
}
BatchRole sum_of_first_two(const Node& node, int) {
  return first_carry(node, 2) ? BatchRole::kSum : BatchRole::kCouples;
}

namespace {

constexpr double kDefaultEpsilon = 1e-5;

BatchRole rows_of_gradient(const Node& node, int) {
  const bool with_x = node.input(3) != nullptr;
  return first_carry(node, 1) && (!with_x || carries_batch(node, node.input(3)))
             ? BatchRole::kRows
             : BatchRole::kCouples;
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

void infer_apply(InferContext& context) {
  require_per_channel(context, 1, 4, channels_of(context, 0));
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
  context.set(0, DType::kFloat64, {channels});
  context.set(1, DType::kFloat64, {channels});
}

void infer_grad_data(InferContext& context) {
  const Dim channels = channels_of(context, 0);
  require_per_channel(context, 1, 2, channels);
  require_per_channel(context, 4, 6, channels);
  infer_same(context);
}

void infer_commit(InferContext& context) { infer_same_shapes(context, 0, 1, "S4"); }

// --- Gradient

void gradient_through_statistics(GradientContext& g) {
  OpBuilder& b = g.b();
  Value* dy = g.dy_or_zero(0);
  Value *x = g.x(0), *scale = g.x(1), *mean = g.x(3), *var = g.x(4), *count = g.x(5);
  const graph::Attributes epsilon{{"epsilon", g.node().get_float("epsilon", kDefaultEpsilon)}};
  const Node* sums =
      b.node(kDomain, "BatchNormGradSums", {dy, x, mean, var}, {"dbias", "dscale"}, epsilon);
  if (g.wants(0)) {
    g.set(0, b.own("BatchNormGradData",
                   {dy, scale, var, x, mean, sums->output(0), sums->output(1), count}, epsilon));
  }
  for (const auto& [slot, sum] : {std::pair{1, 1}, {2, 0}}) {
    if (!g.wants(slot)) continue;
    const auto dtype = static_cast<int64_t>(g.x(slot)->type.dtype);
    g.set(slot, b.op("Cast", {sums->output(sum)}, {{"to", dtype}}));
  }
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
                  {"count", Presence::kRequired, reason}},
                 {{"y"}});
  op.attributes = {epsilon_attribute()};
  op.infer = infer_apply;
  op.batch = rows_of_first;
  op.gradient = gradient(gradient_through_statistics);
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
                 {{"dy"}, {"x"}, {"mean"}, {"var"}}, {{"dbias"}, {"dscale"}});
  op.attributes = {epsilon_attribute()};
  op.infer = infer_grad_sums;
  op.batch = sum_of_first_two;
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
                  {"count", Presence::kOptional}},
                 {{"dx"}});
  op.attributes = {epsilon_attribute()};
  op.infer = infer_grad_data;
  op.batch = rows_of_gradient;
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
