// BatchNormalization with stored statistics: y = (x - mean) / sqrt(var + epsilon) * scale + bias,
// per channel (axis 1). Training replaces it (apply_mode) by the operators of statistics.cc:
//
//   sums = BatchNormSums(x)                          mean, var, count = BatchNormMoments(sums)
//   y = BatchNormApply(x, scale, bias, mean, var, count)      (fuse_activations adds what follows)
//   mean', var' = BatchNormRunning(running_mean, running_var, mean, var, count)
//
// Inputs   x [N,C,...], or [N] with one channel   scale, bias, mean, var [C]
// Outputs  y   running_mean, running_var (training form only; with stored statistics mean and var)
// C1 x is floating with at least one axis   C2 scale, bias, mean and var have one axis of C entries
// C3 spatial is 1, or x has at most two axes   C4 training: more than one value per channel
// C5 scale and bias are of one type, mean and var are of one   C6 epsilon is finite and at least 0
// C7 training: momentum is from 0 to 1
// Gradient with stored statistics (reads x for scale and bias only; mean and var are constants):
//          dx = BatchNormGradData(dy, scale, var)
//          dbias, dscale = BatchNormGradSums(dy, x, mean, var)
// A node whose scale and bias are both frozen uses its stored statistics in training, too.
// Source   ONNX BatchNormalization-1, 6, 7, 9, 14, 15. Below 14 the training form is told by more
//          than one output, below 7 by is_test 0; saved_mean and saved_var must be unused.
#include <algorithm>
#include <cmath>

#include "ops/batch_norm/geometry.h"
#include "ops/core/elementwise.h"
#include "ops/core/epsilon.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/core/inference_form.h"
#include "ops/core/mode.h"
#include "ops/core/normalize.h"
#include "ops/core/one_type.h"
#include "ops/registry.h"

namespace sardonyx::ops {

namespace {

enum Slot : int { kX, kScale, kBias, kMean, kVar };

constexpr double kDefaultEpsilon = 1e-5, kDefaultMomentum = 0.9;

// --- Schema

// An output that only old training forms have; nobody knows what it held.
void drop_saved(NormalizeContext& context, int slot) {
  Node& node = context.node();
  const Value* value = node.output(slot);
  if (value == nullptr) return;
  if (!value->uses().empty() || node.graph()->is_output(value)) {
    context.refuse(fmt::format("its output '{}' ({}) is read", value->name,
                               slot == 3 ? "saved_mean" : "saved_var"));
  }
  node.graph()->drop_output_value(&node, slot);
}

void normalize_batch_norm(NormalizeContext& context) {
  Node& node = context.node();
  if (context.opset() < 14) {
    const auto& outputs = node.outputs();
    const bool more_outputs =
        std::any_of(outputs.begin() + std::min<ptrdiff_t>(1, std::ssize(outputs)), outputs.end(),
                    [](const Value* value) { return value != nullptr; });
    const bool training = context.opset() < 7 ? node.get_int("is_test", 0) == 0 : more_outputs;
    if (training) node.attributes["training_mode"] = int64_t{1};
    drop_saved(context, 3);
    drop_saved(context, 4);
  }
  const int64_t mode = node.get_int("training_mode", 0);
  if (mode != 0 && mode != 1) {
    throw Error("node {}: training_mode is {}, expected 0 (inference form) or 1 (training form)",
                node.label(), mode);
  }
  for (const char* old : {"is_test", "consumed_inputs"}) node.attributes.erase(old);
  if (context.opset() >= 9) node.attributes.erase("spatial");
}

// --- Shape

void infer_batch_norm(InferContext& context) {
  const TensorType& x = context.type(kX);
  require_floating(context, kX, "C1");
  context.require(!x.ranked || x.rank() >= 1, "C1", "x '{}' has no axes",
                  context.node().input(kX)->name);
  const bool spatial = context.node().get_int("spatial", 1) != 0;
  context.require(spatial || !x.ranked || x.rank() <= 2, "C3",
                  "spatial is 0 (statistics per position) and x has type {}; only statistics per "
                  "channel are supported",
                  x.str());
  const Dim channels = !x.ranked ? Dim() : x.rank() > 1 ? x.dims[1] : Dim(1);
  constexpr const char* kNames[] = {"x", "scale", "bias", "mean", "var"};
  for (int slot = kScale; slot <= kVar; ++slot) {
    const TensorType& type = context.type(slot);
    require_floating(context, slot, "C1");
    const bool fits =
        !type.ranked || (type.rank() == 1 && (!type.dims[0].known() || !channels.known() ||
                                              type.dims[0].value == channels.value));
    context.require(fits, "C2", "{} '{}' has type {}, but x has {} channels (type {})",
                    kNames[slot], context.node().input(slot)->name, type.str(),
                    channels.known() ? std::to_string(channels.value) : "unknown", x.str());
  }
  require_type_of(context, kBias, kScale, "C5");
  require_type_of(context, kVar, kMean, "C5");
  require_epsilon(context, "C6");
  infer_same(context);
  context.set(1, context.type(kMean));
  context.set(2, context.type(kVar));
}

// What training would only show much later: it computes with the statistics of the batch.
std::string hint_at_statistics(const Node& node) {
  bool finite = true, negative = false;
  for (const int slot : {kMean, kVar}) {
    const Value* value = node.input(slot);
    if (value == nullptr || !value->is_constant() || !value->data.defined()) continue;
    const Tensor numbers = value->data.cast(DType::kFloat64);
    for (int64_t i = 0; i < numbers.numel(); ++i) {
      const double number = numbers.as_double(i);
      finite &= std::isfinite(number);
      negative |= slot == kVar && number < 0;
    }
  }
  if (!finite) {
    return "its stored mean or variance isn't finite: training doesn't heal that, and what is "
           "trained can't be saved; export the model again";
  }
  if (negative) {
    return "its stored variance has negative numbers, which no data give: until training has moved "
           "them above 0, an evaluation gives no numbers; export the model again";
  }
  return hint_at_epsilon(node);
}

// --- Gradient

void gradient_with_stored(GradientContext& g) {
  OpBuilder& b = g.b();
  Value* dy = g.dy_or_zero(0);
  const graph::Attributes epsilon{{"epsilon", g.node().get_float("epsilon", kDefaultEpsilon)}};
  if (g.wants(kX)) {
    g.set(kX, b.own("BatchNormGradData", {dy, g.x(kScale), g.x(kVar)}, epsilon));
  }
  if (!g.wants(kScale) && !g.wants(kBias)) return;
  const Node* sums = b.node(kDomain, "BatchNormGradSums", {dy, g.x(kX), g.x(kMean), g.x(kVar)},
                            {"dbias", "dscale"}, epsilon);
  for (const auto& [slot, sum] : {std::pair{kBias, 0}, {kScale, 1}}) {
    if (!g.wants(slot)) continue;
    const auto dtype = static_cast<int64_t>(g.x(slot)->type.dtype);
    g.set(slot, b.op("Cast", {sums->output(sum)}, {{"to", dtype}}));
  }
}

// --- Definition

ParameterSlot slot_of(int slot) {
  if (slot == kScale) return ParameterSlot::kScale;
  if (slot == kBias) return ParameterSlot::kBias;
  return slot == kMean || slot == kVar ? ParameterSlot::kStatistic : ParameterSlot::kNone;
}

void use_stored(ModeContext& mode) {
  Node& node = mode.node();
  graph::Graph& graph = *node.graph();
  node.attributes.erase("training_mode");
  for (const int slot : {1, 2}) {
    Value* value = node.output(slot);
    if (value == nullptr) continue;
    take_over(graph, value, mode.b().op("Identity", {node.input(slot + 2)}));
    graph.drop_output_value(&node, slot);
  }
}

void check_count(ModeContext& mode) {
  const Node& node = mode.node();
  const TensorType& x = node.input(kX)->type;
  if (!x.is_static()) return;
  const int64_t positions = batch_norm::positions_of(x);
  const bool rows = carries_batch(node, node.input(kX));
  if (rows && positions == 1) mode.require_rows(2);
  // What other replicas have counts, too, and isn't known here.
  if (mode.statistics_of() == StatisticsOf::kAllReplicas) return;
  if (x.dims[0].value * positions != 1) return;
  throw ConstraintError(
      "C4",
      "x has type {}, one value per channel, which always normalises to zero; train with "
      "micro-batches of at least 2, or freeze its scale '{}' and bias '{}' to use the stored "
      "statistics",
      x.str(), node.input(kScale)->name, node.input(kBias)->name);
}

constexpr const char* kMeaning = "(in ONNX the share of the old running value)";

// Outside 0 to 1 a running variance may fall below 0, and beyond -1 and 1 all of them grow without
// bound.
void require_momentum(const Node& node, double momentum) {
  if (momentum >= 0 && momentum <= 1) return;
  throw ConstraintError(
      "C7",
      "attribute 'momentum' is {:.4g}, expected 0 to 1 {}: the running statistics would be no "
      "averages of those of the batches, and evaluation would mean nothing; write the momentum "
      "that was meant into the file (0.9 is usual), or freeze its scale '{}' and bias '{}' to use "
      "the stored statistics",
      momentum, kMeaning, node.input(kScale)->name, node.input(kBias)->name);
}

void notice_momentum(ModeContext& mode, double momentum) {
  if (momentum == 1) {
    mode.notice(fmt::format(
        "attribute 'momentum' is 1 {}: the running statistics never move, evaluation uses those of "
        "the file; if they shall follow the data, write a smaller one into the file (0.9 is usual)",
        kMeaning));
  } else if (momentum == 0) {
    mode.notice(fmt::format(
        "attribute 'momentum' is 0 {}: the running statistics are those of the last micro-batch, "
        "evaluation uses nothing older; if they shall be averages, write a larger one into the "
        "file (0.9 is usual)",
        kMeaning));
  } else if (momentum < 0.5) {
    mode.notice(
        fmt::format("attribute 'momentum' is {:.4g} {}: the running statistics follow the last "
                    "batches; if {:.4g} "
                    "was meant as the share of the new one, write {:.4g} into the file",
                    momentum, kMeaning, momentum, 1 - momentum));
  }
}

void use_batch(ModeContext& mode) {
  check_count(mode);
  Node& node = mode.node();
  graph::Graph& graph = *node.graph();
  OpBuilder& b = mode.b();
  const std::string name = node.output(0)->name;
  const double momentum = node.get_float("momentum", kDefaultMomentum);
  require_momentum(node, momentum);
  notice_momentum(mode, momentum);
  Value* sums = b.own("BatchNormSums", {node.input(kX)}, {}, name + "/sums");
  const Node* moments =
      b.node(kDomain, "BatchNormMoments", {sums}, {name + "/mean", name + "/var", name + "/count"});
  std::vector<Value*> operands{node.input(kX), node.input(kScale), node.input(kBias)};
  std::vector<Value*> running{node.input(kMean), node.input(kVar)};
  for (auto* inputs : {&operands, &running}) {
    inputs->insert(inputs->end(), moments->outputs().begin(), moments->outputs().end());
  }
  Node* apply = b.node(kDomain, "BatchNormApply", operands, {name},
                       {{"epsilon", node.get_float("epsilon", kDefaultEpsilon)}});
  apply->name = node.name;
  apply->origin = node.origin;
  take_over(graph, node.output(0), apply->output(0));
  const Node* update = b.node(
      kDomain, "BatchNormRunning", running, {running[0]->name + "'", running[1]->name + "'"},
      {{"momentum", momentum},
       {"sample_variance", int64_t{mode.stored_variance() == StoredVariance::kSample ? 1 : 0}}});
  for (const int i : {0, 1}) {
    Value* next = update->output(i);
    if (Value* value = node.output(i + 1)) take_over(graph, value, next);
    mode.update(node.input(kMean + i), next);
  }
}

void apply_mode(ModeContext& mode) {
  const Node& node = mode.node();
  const bool of_file = mode.respect_file() && node.get_int("training_mode", 0) == 0;
  const bool frozen = mode.frozen(node.input(kScale)) && mode.frozen(node.input(kBias));
  if (mode.training() && !of_file && !frozen) {
    use_batch(mode);
  } else {
    use_stored(mode);
  }
}

void to_inference_form(InferenceFormContext& form) {
  if (form.opset() < 7 && !form.attribute_is("is_test", 1, 0)) form.edit().ints["is_test"] = 1;
  if (form.opset() >= 14 && !form.attribute_is("training_mode", 0, 0)) {
    form.edit().ints["training_mode"] = 0;
  }
  form.edit().keep_outputs = 1;
}

}  // namespace

void register_batch_norm(OpRegistry& ops) {
  OpDef op;
  op.name = "BatchNormalization";
  op.doc = "Normalises per channel with stored statistics; in training with those of the batch.";
  op.since = {1, 6, 7, 9, 14, 15};
  op.inputs = {{"x"},
               {"scale"},
               {"bias"},
               {"mean", Presence::kRequired, "a running statistic"},
               {"var", Presence::kRequired, "a running statistic"}};
  op.outputs = {{"y"},
                {"running_mean", Presence::kOptional},
                {"running_var", Presence::kOptional},
                {"saved_mean", Presence::kOptional},
                {"saved_var", Presence::kOptional}};
  op.attributes = {
      {"epsilon", "float, default 1e-5: added to the variance"},
      {"momentum", "float, default 0.9: share of the old value in a running statistic"},
      {"training_mode", "int, default 0: 1 is the training form"},
      {"spatial", "int, default 1: 0 (opset 7 and below) is for two axes only"}};
  op.normalize = normalize_batch_norm;
  op.infer = infer_batch_norm;
  op.hint = hint_at_statistics;
  op.gradient = gradient(gradient_with_stored);
  op.batch = batch_norm::rows_of_first;
  op.cheap = true;
  op.narrow = Narrow::kFollows;
  op.narrow_inputs = {kX};
  op.parameter_slot = slot_of;
  op.apply_mode = apply_mode;
  op.inference_form = to_inference_form;
  ops.add(std::move(op));
  batch_norm::register_statistics(ops);
}

}  // namespace sardonyx::ops
