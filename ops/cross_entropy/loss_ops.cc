// Sardonyx's own losses: a sum and a weight, to be divided once per step (append_optimizer).
//
// CrossEntropyLoss(x, labels, weights): loss_sum = sum of (1-s) w[y] l[y] + s/C sum_c w[c] l[c],
//     l = -log_softmax(x), s = label_smoothing (the meaning in PyTorch); weight = sum of w[y];
//     log_prob = log_softmax(x). CrossEntropyGrad(dy, log_prob, labels, weights) is its gradient
//     for x; its reduction says what dy belongs to (mean divides by the weight).
// NllLoss(x, labels, weights): loss_sum = sum of -w[y] x[y]; weight. NllGrad: likewise.
// CountCorrect(x, labels): positions whose label is among the k best scores; of equal scores the
//     lower class is the better one, and NaN beats all.
// Constraints C1 to C6 as on the plate of cross_entropy.cc; C7 k >= 1; C8 dy fits the reduction.
#include "ops/core/gradient.h"
#include "ops/core/infer.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/cross_entropy/gradients.h"

namespace sardonyx::ops::cross_entropy {

namespace {

// --- Schema

const Port kLabels{"labels", Presence::kRequired, "integer labels"};
const Port kWeights{"weights", Presence::kOptional, "class weights are constants"};
const AttributeDef kIgnore{"ignore_index", "int, default none: labels that count nothing"};
const AttributeDef kSmoothing{"label_smoothing",
                              "float, default 0: share of the target spread over all classes"};
const AttributeDef kReduction{"reduction", "string, default sum: what dy is the gradient of"};

// --- Shape

void infer_sums(InferContext& context) {
  infer_labels(context);
  context.set(0, context.dtype(0), {});
  context.set(1, context.dtype(0), {});
}

void require_smoothing(const InferContext& context) {
  const double smoothing = context.node().get_float("label_smoothing", 0);
  context.require(smoothing >= 0 && smoothing <= 1, "C6",
                  "label_smoothing is {}, expected a number from 0 to 1", smoothing);
}

void infer_cross_entropy(InferContext& context) {
  require_smoothing(context);
  infer_sums(context);
  context.set(2, context.type(0));
}

void infer_nll(InferContext& context) {
  context.require(context.node().get_float("label_smoothing", 0) == 0, "C6",
                  "label_smoothing belongs to cross_entropy, this loss takes log-probabilities");
  infer_sums(context);
}

void infer_count(InferContext& context) {
  infer_labels(context);
  const int64_t k = context.node().get_int("k", 1);
  context.require(k >= 1, "C7", "k is {}, expected at least 1", k);
  context.set(0, context.dtype(0), {});
}

void require_dy(const InferContext& context, const std::vector<Dim>& positions) {
  const TensorType& dy = context.type(0);
  const bool scalar = reduction_of(context.node(), "sum") != Reduction::kNone;
  context.require(!dy.ranked || dy.dims.size() == (scalar ? 0 : positions.size()), "C8",
                  "dy {} doesn't fit reduction {}", dy.str(),
                  context.node().get_string("reduction", "sum"));
}

void infer_cross_entropy_grad(InferContext& context) {
  require_smoothing(context);
  require_label_type(context, 2);
  const TensorType& log_prob = context.type(1);
  if (log_prob.ranked) {
    context.require(log_prob.rank() >= 2, "C1", "log_prob has type {}, expected [N,classes,..]",
                    log_prob.str());
    std::vector<Dim> positions = log_prob.dims;
    positions.erase(positions.begin() + 1);
    require_dy(context, positions);
  }
  context.set(0, log_prob);
}

void infer_nll_grad(InferContext& context) {
  require_label_type(context, 1);
  const TensorType& labels = context.type(1);
  if (!labels.ranked) return context.set_unranked(0, context.dtype(0));
  require_dy(context, labels.dims);
  std::vector<Dim> dims = labels.dims;
  dims.insert(dims.begin() + 1, Dim(context.node().get_int("classes", -1)));
  context.set(0, context.dtype(0), std::move(dims));
}

// --- Gradient

void cross_entropy_gradient(GradientContext& g) {
  graph::Attributes attributes;
  for (const char* name : {"ignore_index", "label_smoothing"}) {
    if (g.node().has(name)) attributes[name] = g.node().attributes.find(name)->second;
  }
  softmax_loss_gradient(g, 2, std::move(attributes));
}

void nll_gradient(GradientContext& g) {
  if (!g.wants(0)) return;
  if (g.dy(0) == nullptr) return g.set(0, g.b().filled_like(g.x(0), 0));
  graph::Attributes attributes{{"classes", g.shape(g.x(0))[1]}};
  if (const auto ignore = ignore_index_of(g.node())) attributes["ignore_index"] = *ignore;
  g.set(0, g.b().own("NllGrad", {g.dy(0), g.x(1), g.x(2)}, std::move(attributes)));
}

// --- Definition

BatchRole sum_role(const Node& node, int slot) {
  if (!both_carry_batch(node, 0)) return BatchRole::kCouples;
  return slot < 2 ? BatchRole::kSum : BatchRole::kRows;
}

// One dy for all rows, or one for each; a mean divides by what all rows weigh.
bool dy_goes_with_rows(const Node& node) {
  const Reduction reduction = reduction_of(node, "sum");
  return reduction == Reduction::kSum ||
         (reduction == Reduction::kNone && carries_batch(node, node.input(0)));
}

BatchRole cross_entropy_grad_role(const Node& node, int) {
  const bool rows = dy_goes_with_rows(node) && both_carry_batch(node, 1);
  return rows ? BatchRole::kRows : BatchRole::kCouples;
}

BatchRole nll_grad_role(const Node& node, int) {
  const bool rows = dy_goes_with_rows(node) && carries_batch(node, node.input(1));
  return rows ? BatchRole::kRows : BatchRole::kCouples;
}

OpDef define(const char* name, const char* doc) {
  OpDef op;
  op.domain = kDomain;
  op.name = name;
  op.doc = doc;
  return op;
}

}  // namespace

OpDef cross_entropy_loss_op() {
  OpDef op = define("CrossEntropyLoss",
                    "Sum of the cross-entropies of scores with class labels, "
                    "and the sum of the label weights.");
  op.inputs = {{"x"}, kLabels, kWeights};
  op.outputs = {{"loss_sum"}, {"weight"}, {"log_prob", Presence::kOptional}};
  op.attributes = {kIgnore, kSmoothing};
  op.infer = infer_cross_entropy;
  op.value_check = label_check();
  op.gradient = gradient(cross_entropy_gradient);
  op.batch = sum_role;
  return op;
}

OpDef cross_entropy_grad_op() {
  OpDef op = define("CrossEntropyGrad", "Gradient of the cross-entropy losses for the scores.");
  op.inputs = {{"dy"}, {"log_prob"}, kLabels, kWeights};
  op.outputs = {{"dx"}};
  op.attributes = {kIgnore, kSmoothing, kReduction};
  op.infer = infer_cross_entropy_grad;
  op.gradient = not_differentiable("second derivative of the cross-entropy");
  op.batch = cross_entropy_grad_role;
  return op;
}

OpDef nll_loss_op() {
  OpDef op = define("NllLoss",
                    "Sum of the negative log-probabilities of class labels, and the sum "
                    "of the label weights.");
  op.inputs = {{"x"}, kLabels, kWeights};
  op.outputs = {{"loss_sum"}, {"weight"}};
  op.attributes = {kIgnore};
  op.infer = infer_nll;
  op.value_check = label_check();
  op.gradient = gradient(nll_gradient);
  op.batch = sum_role;
  return op;
}

OpDef nll_grad_op() {
  OpDef op = define("NllGrad", "Gradient of the negative log-likelihood losses.");
  op.inputs = {{"dy"}, kLabels, kWeights};
  op.outputs = {{"dx"}};
  op.attributes = {kIgnore, kReduction, {"classes", "int: size of axis 1 of the result"}};
  op.infer = infer_nll_grad;
  op.gradient = not_differentiable("second derivative of a loss that is linear");
  op.batch = nll_grad_role;
  return op;
}

OpDef count_correct_op() {
  OpDef op = define("CountCorrect", "Number of positions whose label is among the k best scores.");
  op.inputs = {{"x"}, kLabels};
  op.outputs = {{"count"}};
  op.attributes = {kIgnore, {"k", "int, default 1: how many of the best scores count"}};
  op.infer = infer_count;
  op.gradient = zero_gradient("a count");
  op.batch = sum_role;
  return op;
}

}  // namespace sardonyx::ops::cross_entropy
