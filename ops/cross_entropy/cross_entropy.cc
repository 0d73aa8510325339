// SoftmaxCrossEntropyLoss: l = -w[y] log_softmax(x)[y] for each position with label y
// NegativeLogLikelihoodLoss: the same of x as it is (log probabilities)
//
// Inputs   x [N,C,d..]   labels [N,d..], class numbers   weights [C] (optional)
// Outputs  loss: [N,d..] (reduction none), their sum (sum), or sum / sum of w[y] (mean)
//          log_prob = log_softmax(x), the first operator only
// Labels equal to ignore_index count nothing; a mean over nothing is 0.
// C1 x is floating, rank >= 2      C2 labels fit x without its axis 1       C3 labels are integers
// C4 weights are [C], of x's type  C5 reduction is none, sum or mean        C6 label_smoothing in
// [0,1]                            (a label out of range is an Error when it is met)
// Gradient CrossEntropyGrad(dy, log_prob, labels, weights), NllGrad(dy, labels, weights); the
//          gradient of log_prob is LogSoftmaxGrad. Reads log_prob, not x. None for labels, weights.
// Own operators (loss_ops.cc): CrossEntropyLoss and NllLoss return sum and weight, so that
//          micro-batches can be added up before anything is divided.
// Source   ONNX SoftmaxCrossEntropyLoss-12, 13, NegativeLogLikelihoodLoss-12, 13, 22
#include "ops/cross_entropy/cross_entropy.h"

#include "graph/names.h"
#include "ops/core/constraint.h"
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/core/one_type.h"
#include "ops/cross_entropy/gradients.h"

namespace sardonyx::ops {

namespace cross_entropy {

Reduction reduction_of(const Node& node, const char* fallback) {
  const std::string name = node.get_string("reduction", fallback);
  if (name == "none") return Reduction::kNone;
  if (name == "sum") return Reduction::kSum;
  if (name == "mean") return Reduction::kMean;
  throw ConstraintError("C5", "reduction is '{}', expected none, sum or mean", name);
}

std::optional<int64_t> ignore_index_of(const Node& node) {
  if (!node.has("ignore_index")) return std::nullopt;
  return node.get_int("ignore_index", 0);
}

Geometry Geometry::of_scores(const std::vector<int64_t>& shape) {
  Geometry geometry{shape[0], shape[1], 1};
  for (size_t i = 2; i < shape.size(); ++i) geometry.inner *= shape[i];
  return geometry;
}

void require_label_type(const InferContext& context, int input) {
  const DType dtype = context.dtype(input);
  context.require(dtype == DType::kInt64 || dtype == DType::kInt32 || dtype == DType::kUint8, "C3",
                  "labels are {}, expected class numbers (int32, int64 or uint8)",
                  graph::dtype_name(dtype));
}

bool both_carry_batch(const Node& node, int first) {
  return carries_batch(node, node.input(first)) && carries_batch(node, node.input(first + 1));
}

std::optional<std::vector<Dim>> infer_labels(InferContext& context) {
  const TensorType& x = context.type(0);
  context.require(graph::is_floating(x.dtype), "C1", "scores are {}, expected a floating type",
                  graph::dtype_name(x.dtype));
  require_label_type(context, 1);
  if (!x.ranked) return std::nullopt;
  context.require(x.rank() >= 2, "C1", "scores have type {}, expected [N,classes,..]", x.str());
  std::vector<Dim> expected = x.dims;
  expected.erase(expected.begin() + 1);
  const TensorType& labels = context.type(1);
  if (labels.ranked) {
    bool fits = labels.dims.size() == expected.size();
    for (size_t i = 0; fits && i < expected.size(); ++i) {
      Dim& dim = expected[i];
      const int64_t other = labels.dims[i].value;
      fits = !dim.known() || other < 0 || dim.value == other;
      if (!dim.known()) dim = labels.dims[i];
    }
    context.require(fits, "C2", "labels {} don't fit scores {}: expected one class number for {}",
                    labels.str(), x.str(), graph::shape_str(expected));
  }
  if (context.has(2)) {
    require_type_of(context, 2, 0, "C4");
    const TensorType& weights = context.type(2);
    const Dim classes = x.dims[1];
    context.require(
        (!weights.ranked || weights.rank() == 1) &&
            (!weights.is_static() || !classes.known() || weights.dims[0].value == classes.value),
        "C4", "class weights {} don't fit scores {}: expected one for each class", weights.str(),
        x.str());
  }
  return expected;
}

Value* log_probabilities(GradientContext& g, int slot) {
  if (g.y(slot) != nullptr) return g.y(slot);
  Node* node = g.y(0)->producer;
  graph::Graph& graph = *node->graph();
  graph.add_output_value(node, slot, graph::fresh_name(graph, g.y(0)->name + "/log_prob"));
  infer_node(*node);
  return node->output(slot);
}

void softmax_loss_gradient(GradientContext& g, int log_prob_slot, graph::Attributes attributes) {
  if (!g.wants(0)) return;
  Value* log_prob = log_probabilities(g, log_prob_slot);
  Value* dx = nullptr;
  if (g.dy(0) != nullptr) {
    dx = g.b().own("CrossEntropyGrad", {g.dy(0), log_prob, g.x(1), g.x(2)}, std::move(attributes));
  }
  if (Value* d_log_prob = g.dy(log_prob_slot)) {
    Value* more = g.b().own("LogSoftmaxGrad", {log_prob, d_log_prob}, {{"axis", int64_t{1}}});
    dx = dx == nullptr ? more : g.b().op("Add", {dx, more});
  }
  g.set(0, dx != nullptr ? dx : g.b().filled_like(g.x(0), 0));
}

}  // namespace cross_entropy

namespace {

using cross_entropy::Reduction;
using cross_entropy::reduction_of;

// --- Shape

void infer_loss(InferContext& context) {
  const Reduction reduction = reduction_of(context.node(), "mean");
  const std::optional<std::vector<Dim>> positions = cross_entropy::infer_labels(context);
  if (reduction != Reduction::kNone) {
    context.set(0, context.dtype(0), {});
  } else if (positions) {
    context.set(0, context.dtype(0), *positions);
  } else {
    context.set_unranked(0, context.dtype(0));
  }
  context.set(1, context.type(0));
}

// --- Gradient

graph::Attributes gradient_attributes(const Node& node) {
  graph::Attributes attributes{{"reduction", node.get_string("reduction", "mean")}};
  if (const auto ignore = cross_entropy::ignore_index_of(node))
    attributes["ignore_index"] = *ignore;
  return attributes;
}

void softmax_gradient(GradientContext& g) {
  cross_entropy::softmax_loss_gradient(g, 1, gradient_attributes(g.node()));
}

void nll_gradient(GradientContext& g) {
  if (!g.wants(0)) return;
  graph::Attributes attributes = gradient_attributes(g.node());
  attributes["classes"] = g.shape(g.x(0))[1];
  g.set(0, g.b().own("NllGrad", {g.dy(0), g.x(1), g.x(2)}, std::move(attributes)));
}

// --- Definition

BatchRole batch_role(const Node& node, int slot) {
  if (!cross_entropy::both_carry_batch(node, 0)) return BatchRole::kCouples;
  if (slot == 1) return BatchRole::kRows;
  switch (reduction_of(node, "mean")) {
    case Reduction::kNone:
      return BatchRole::kRows;
    case Reduction::kSum:
      return BatchRole::kSum;
    default:
      return BatchRole::kCouples;
  }
}

// (sum, weight) of a mean, by the own operator.
std::function<std::pair<Value*, Value*>(Node&, OpBuilder&)> splits_into(const char* own_op) {
  return [own_op](Node& node, OpBuilder& b) -> std::pair<Value*, Value*> {
    if (reduction_of(node, "mean") != Reduction::kMean) return {nullptr, nullptr};
    graph::Attributes attributes;
    if (const auto ignore = cross_entropy::ignore_index_of(node)) {
      attributes["ignore_index"] = *ignore;
    }
    std::vector<Value*> inputs{node.input(0), node.input(1), node.input(2)};
    Node* own = b.node(kDomain, own_op, std::move(inputs), {"loss_sum", "loss_weight"},
                       std::move(attributes));
    return {own->output(0), own->output(1)};
  };
}

OpDef loss(const char* name, const char* doc, std::vector<int> since) {
  OpDef op;
  op.name = name;
  op.doc = doc;
  op.since = std::move(since);
  op.inputs = {{"x"},
               {"labels", Presence::kRequired, "integer labels"},
               {"weights", Presence::kOptional, "class weights are constants"}};
  op.outputs = {{"loss"}};
  op.attributes = {{"reduction", "string, default mean: none, sum or mean"},
                   {"ignore_index", "int, default none: labels that count nothing"}};
  op.infer = infer_loss;
  op.batch = batch_role;
  op.value_check = cross_entropy::label_check();
  return op;
}

}  // namespace

void register_cross_entropy(OpRegistry& ops) {
  OpDef softmax =
      loss("SoftmaxCrossEntropyLoss", "Cross-entropy of scores with class labels.", {12, 13});
  softmax.outputs.push_back({"log_prob", Presence::kOptional});
  softmax.gradient = gradient(softmax_gradient);
  softmax.split_loss = splits_into("CrossEntropyLoss");
  ops.add(std::move(softmax));
  OpDef nll = loss("NegativeLogLikelihoodLoss", "Negative log-probability of the class labels.",
                   {12, 13, 22});
  nll.gradient = gradient(nll_gradient);
  nll.split_loss = splits_into("NllLoss");
  ops.add(std::move(nll));
  ops.add(cross_entropy::cross_entropy_loss_op());
  ops.add(cross_entropy::cross_entropy_grad_op());
  ops.add(cross_entropy::nll_loss_op());
  ops.add(cross_entropy::nll_grad_op());
  ops.add(cross_entropy::count_correct_op());
}

}  // namespace sardonyx::ops
