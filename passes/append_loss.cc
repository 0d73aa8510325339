// append_loss: finds what the loss reads, adds the labels as an input, and makes the outputs of the
// graph `loss_sum` and `loss_weight` (and `correct` for class labels).
//
// The loss is a sum and a weight, never a mean: the mean is taken once per step, over the whole
// global batch, so any cut into micro-batches and replicas gives the same step.
#include <fmt/ranges.h>

#include <algorithm>

#include "graph/names.h"
#include "graph/support/error.h"
#include "ops/core/op_builder.h"
#include "passes/pass.h"

namespace sardonyx::passes {

namespace {

using graph::Graph;
using graph::Node;
using graph::TensorType;
using graph::Value;

std::string list_outputs(const Graph& graph) {
  std::string text;
  for (const Value* value : graph.outputs()) {
    text += fmt::format("\n  {}  {}", value->name, value->type.str());
  }
  return text;
}

constexpr std::string_view kKinds[] = {"cross_entropy",  "nll", "mse", "l1", "smooth_l1",
                                       "bce_with_logits"};

class LossAppender {
 public:
  LossAppender(Graph& graph, PassContext& context)
      : graph_(graph), context_(context), options_(context.options.loss), b_(graph) {}

  void run() {
    if (std::ranges::find(kKinds, options_.kind) == std::end(kKinds)) {
      throw Error("there is no loss '{}'; known: {}", options_.kind, fmt::join(kKinds, ", "));
    }
    if (!options_.loss_output.empty()) {
      take_loss_of_file();
    } else {
      Value* scores = choose_output();
      if (options_.kind == "cross_entropy") {
        cross_entropy(bypass_softmax(scores));
      } else if (options_.kind == "nll") {
        class_loss("NllLoss", scores);
      } else {
        target_loss(scores);
      }
    }
    publish();
  }

 private:
  bool takes_classes() const { return passes::takes_classes(options_.kind); }

  // --- a loss that the file computes itself
  // ---------------------------------------------------------------
  void take_loss_of_file() {
    Value* loss = graph_.find(options_.loss_output);
    if (loss == nullptr) {
      throw Error("there is no value '{}' for --loss-output; the outputs are:{}",
                  options_.loss_output, list_outputs(graph_));
    }
    require_known(loss);
    if (!loss->type.is_static() || loss->type.numel() != 1 ||
        !graph::is_floating(loss->type.dtype)) {
      throw Error("--loss-output '{}' has type {}, expected one floating-point number", loss->name,
                  loss->type.str());
    }
    context_.logits = loss->name;
    if (options_.mean && loss->producer != nullptr) {
      const ops::OpDef* op = ops::OpRegistry::get().find(*loss->producer);
      if (op != nullptr && op->split_loss) {
        ops::OpBuilder before(graph_, nullptr);
        std::tie(sum_, weight_) = op->split_loss(*loss->producer, before);
        if (sum_ != nullptr) return;
      }
    }
    Value* scalar = loss->type.rank() == 0 ? loss : b_.op("Reshape", {loss, b_.ints({})});
    const auto rows = static_cast<double>(context_.options.batch);
    weight_ = b_.scalar(loss->type.dtype, options_.mean ? rows : 1.0);
    sum_ = options_.mean ? b_.op("Mul", {scalar, weight_}) : scalar;
  }

  // --- an attached loss
  // -------------------------------------------------------------------------------------
  Value* choose_output() {
    if (!options_.output.empty()) {
      if (Value* value = graph_.find(options_.output)) return check_output(value);
      throw Error("there is no output '{}'; the outputs are:{}", options_.output,
                  list_outputs(graph_));
    }
    std::vector<Value*> fitting;
    for (Value* value : graph_.outputs()) {
      if (fits(value)) fitting.push_back(value);
    }
    if (fitting.size() == 1) return check_output(fitting[0]);
    if (fitting.empty()) {
      for (Value* value : graph_.outputs()) require_known(value);
      for (const Value* value : graph_.outputs()) refuse_one_hot(value);
      refuse_other_rows();
      refuse_labels();
    }
    throw Error(
        "several of the model's outputs fit the labels of loss {}; name one with --output:{}",
        options_.kind, list_outputs(graph_));
  }

  // An output that would fit if its rows were the samples.
  void refuse_other_rows() const {
    for (const Value* value : graph_.outputs()) {
      if (ops::carries_batch(graph_, value) || !fits_by_shape(value)) continue;
      if (value->type.rank() < 1 || value->type.dims[0].value != context_.options.batch) continue;
      throw Error(
          "output '{}' of type {} fits loss {} but for its rows, which aren't those of the batch: "
          "somewhere in front of it stands a tensor with {} rows of its own (indices, a mask); "
          "export the model with a dynamic batch axis",
          value->name, value->type.str(), options_.kind, context_.options.batch);
    }
  }

  [[noreturn]] void refuse_labels() const {
    const TensorType& labels = options_.labels;
    if (labels.dtype == graph::DType::kUndefined) {
      throw Error("none of the model's outputs fits loss {}, which reads {}; the outputs are:{}",
                  options_.kind, takes_classes() ? "scores [N,classes]" : "numbers",
                  list_outputs(graph_));
    }
    throw Error("none of the model's outputs fits the labels {} of loss {}: {}; the outputs are:{}",
                graph::shape_str(labels.dims), options_.kind,
                takes_classes()
                    ? "it takes the shape of an output without the axis of its classes, "
                      "[N] for scores [N,classes]; for values give --loss mse"
                    : "it takes values of an output's shape; for class numbers give "
                      "--loss cross_entropy",
                list_outputs(graph_));
  }

  // Labels with an entry for each class of the scores, where one index is expected.
  void refuse_one_hot(const Value* scores) const {
    const TensorType &labels = options_.labels, &type = scores->type;
    const bool one_rank = type.ranked && type.rank() >= 2 && labels.rank() == type.rank();
    if (!takes_classes() || !one_rank || !graph::is_floating(type.dtype)) return;
    for (const int axis : {1, labels.rank() - 1}) {
      if (!type.dims[1].known() || labels.dims[axis].value != type.dims[1].value) continue;
      throw Error(
          "labels have shape {}, but loss {} on '{}' expects class indices: they look one-hot, "
          "with {} classes along axis {}; give the indices, as labels.argmax(axis={}) does",
          graph::shape_str(labels.dims), options_.kind, scores->name, type.dims[1].value, axis,
          axis);
    }
  }

  bool fits(const Value* value) const {
    return ops::carries_batch(graph_, value) && fits_by_shape(value);
  }

  bool fits_by_shape(const Value* value) const {
    const TensorType& type = value->type;
    if (!graph::is_floating(type.dtype) || !type.ranked) return false;
    const TensorType& labels = options_.labels;
    if (labels.dtype == graph::DType::kUndefined) return !takes_classes() || type.rank() >= 2;
    return takes_classes() ? type.rank() == labels.rank() + 1
                           : values_per_row(type) == values_per_row(labels);
  }

  // The rows themselves may differ: the labels' type may come before the batch is bound.
  static int64_t values_per_row(const TensorType& type) {
    int64_t count = 1;
    for (size_t i = 1; i < type.dims.size(); ++i) count *= type.dims[i].value;
    return count;
  }

  // An output without a type stands behind nodes that can't be run: these are what to report.
  void require_known(Value* value) const {
    if (!value->type.is_static()) require_supported(context_, {value});
  }

  Value* check_output(Value* value) const {
    require_known(value);
    if (!graph::is_floating(value->type.dtype) || !value->type.is_static()) {
      throw Error(
          "the loss can't read '{}' of type {}: expected floating-point scores of known "
          "shape",
          value->name, value->type.str());
    }
    if (!ops::carries_batch(graph_, value)) {
      throw Error(
          "the loss can't read '{}' of type {}: it has no batch axis, so its rows are no samples; "
          "the outputs are:{}",
          value->name, value->type.str(), list_outputs(graph_));
    }
    return value;
  }

  // Normalised over axis 1, the classes, and over nothing else.
  static bool over_classes(const Node& node) {
    const int64_t rank = node.input(0)->type.rank();
    const int64_t axis = node.get_int("axis", -1);
    const bool flattened = node.get_int("flatten", 0) != 0;
    return (axis < 0 ? axis + rank : axis) == 1 && (rank == 2 || !flattened);
  }

  // Cross-entropy applies its own log-softmax: a closing Softmax or LogSoftmax is trained through
  // its input.
  Value* bypass_softmax(Value* scores) {
    const Value* last = scores;
    while (last->producer != nullptr) {
      const ops::OpDef* op = ops::OpRegistry::get().find(*last->producer);
      if (op == nullptr) break;
      if (op->class_output != ops::ClassOutput::kNone && over_classes(*last->producer)) {
        Value* input = last->producer->input(0);
        context_.notice(
            fmt::format("the model ends in {}; cross-entropy trains on its input '{}' (the saved "
                        "file keeps it)",
                        op->name, input->name));
        return input;
      }
      const Value* input = last->producer->input(0);
      if (!op->view || input == nullptr || !input->type.same_storage(last->type)) break;
      last = input;
    }
    return scores;
  }

  Value* labels_input(TensorType expected) {
    const TensorType& given = options_.labels;
    if (given.dtype != graph::DType::kUndefined) {
      if (given.rank() != expected.rank()) {
        refuse_one_hot(graph_.find(context_.logits));
        throw Error("labels have shape {}, but loss {} on '{}' expects {}{}",
                    graph::shape_str(given.dims), options_.kind, context_.logits,
                    graph::shape_str(expected.dims),
                    takes_classes() ? " class numbers (not one-hot rows)" : "");
      }
      for (int i = 1; i < given.rank(); ++i) {
        if (given.dims[i].value != expected.dims[i].value) {
          throw Error("labels have shape {}, but loss {} on '{}' expects {}",
                      graph::shape_str(given.dims), options_.kind, context_.logits,
                      graph::shape_str(expected.dims));
        }
      }
      if (takes_classes()) expected.dtype = given.dtype;
    }
    context_.labels = graph::fresh_name(graph_, "labels");
    return graph_.add_input(context_.labels, std::move(expected));
  }

  void cross_entropy(Value* logits) { class_loss("CrossEntropyLoss", logits); }

  void class_loss(const std::string& op, Value* scores) {
    context_.logits = scores->name;
    if (scores->type.rank() < 2) {
      throw Error("loss {} expects scores [N,classes], but '{}' has type {}", options_.kind,
                  scores->name, scores->type.str());
    }
    // The softmax of one score is 1: a loss of 0 for any weights.
    if (scores->type.dims[1].value == 1) {
      throw Error(
          "loss {} has nothing to learn from one class, and '{}' of type {} has one column; if "
          "these are values, give --loss mse, for a yes or no --loss bce_with_logits; for classes "
          "export one column for each",
          options_.kind, scores->name, scores->type.str());
    }
    std::vector<graph::Dim> dims = scores->type.dims;
    dims.erase(dims.begin() + 1);
    Value* labels = labels_input(TensorType(graph::DType::kInt64, std::move(dims)));
    graph::Attributes attributes;
    if (options_.ignore_index) attributes["ignore_index"] = *options_.ignore_index;
    if (options_.label_smoothing != 0.0) attributes["label_smoothing"] = options_.label_smoothing;
    const std::vector<std::string> outputs =
        op == "CrossEntropyLoss" ? std::vector<std::string>{"loss_sum", "loss_weight", "log_prob"}
                                 : std::vector<std::string>{"loss_sum", "loss_weight"};
    Node* node = b_.node(ops::kDomain, op, {scores, labels, class_weights(scores->type)}, outputs,
                         attributes);
    sum_ = node->output(0);
    weight_ = node->output(1);
    graph::Attributes count;
    if (options_.ignore_index) count["ignore_index"] = *options_.ignore_index;
    count["k"] = int64_t{1};
    correct_ = b_.own("CountCorrect", {scores, labels}, count, "correct");
    if (context_.options.mode == Mode::kEval && scores->type.dims[1].value > 5) {
      count["k"] = int64_t{5};
      correct5_ = b_.own("CountCorrect", {scores, labels}, count, "correct_top5");
    }
  }

  // nullptr: all 1.
  Value* class_weights(const TensorType& scores) {
    const auto count = static_cast<int64_t>(options_.class_weights.size());
    if (count == 0) return nullptr;
    if (scores.dims[1].known() && scores.dims[1].value != count) {
      throw Error("--class-weights has {} numbers, but '{}' of type {} has {} classes", count,
                  context_.logits, scores.str(), scores.dims[1].value);
    }
    const auto weights = graph::Tensor::of<double>({count}, options_.class_weights);
    return b_.constant(weights.cast(scores.dtype), "class_weights");
  }

  void target_loss(Value* scores) {
    context_.logits = scores->name;
    Value* labels = labels_input(targets_of(scores->type));
    Value* target = labels->type.same_storage(scores->type)
                        ? labels
                        : b_.op("Reshape", {labels, b_.ints(scores->type.shape())});
    Value* losses = element_losses(scores, target);
    std::vector<int64_t> axes(scores->type.rank());
    for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
    sum_ = b_.op("ReduceSum", {losses, b_.ints(axes)}, {{"keepdims", int64_t{0}}}, "loss_sum");
    weight_ = b_.scalar(scores->type.dtype, static_cast<double>(scores->type.numel()));
  }

  // The loss of each element, written so that nothing overflows and the gradient is the derivative
  // at every point where there is one, and 0 where |x - t| has a kink.
  Value* element_losses(Value* x, Value* target) {
    const auto number = [&](double value) { return b_.scalar(x->type.dtype, value); };
    if (options_.kind == "bce_with_logits") {
      // (1 - t) x + log(1 + exp(-x))
      Value* rest = b_.op("Mul", {b_.op("Sub", {number(1), target}), x});
      return b_.op("Add", {rest, b_.op("Softplus", {b_.op("Neg", {x})})});
    }
    Value* difference = b_.op("Sub", {x, target});
    if (options_.kind == "mse") return b_.op("Mul", {difference, difference});
    if (options_.kind == "l1") return b_.op("Abs", {difference});
    CHECK(options_.kind == "smooth_l1");
    // c (d - c / 2) with c = clip(d, -1, 1): d^2 / 2, or |d| - 1/2 from 1 on
    Value* clipped = b_.op("Clip", {difference, number(-1), number(1)});
    Value* half = b_.op("Mul", {clipped, number(0.5)});
    return b_.op("Mul", {clipped, b_.op("Sub", {difference, half})});
  }

  // Targets of a one-column output may come without the column.
  TensorType targets_of(TensorType expected) const {
    const TensorType& given = options_.labels;
    const bool drops_column = given.dtype != graph::DType::kUndefined && expected.rank() == 2 &&
                              given.rank() == 1 && expected.dims[1].value == 1;
    if (drops_column) expected.dims.pop_back();
    return expected;
  }

  void publish() {
    graph_.clear_outputs();
    const auto add = [&](Value* value, std::string& name, const char* wish) {
      if (value == nullptr) return;
      if (value->kind != graph::ValueKind::kResult || value->name != wish) {
        if (graph_.find(wish) == nullptr && value->origin.kind == graph::Origin::Kind::kNone) {
          graph_.rename(value, wish);
        }
      }
      name = value->name;
      graph_.add_output(value);
    };
    add(sum_, context_.loss_sum, "loss_sum");
    add(weight_, context_.loss_weight, "loss_weight");
    add(correct_, context_.correct, "correct");
    add(correct5_, context_.correct_top5, "correct_top5");
  }

  Graph& graph_;
  PassContext& context_;
  const LossOptions& options_;
  ops::OpBuilder b_;
  Value* sum_ = nullptr;
  Value* weight_ = nullptr;
  Value* correct_ = nullptr;
  Value* correct5_ = nullptr;
};

}  // namespace

bool append_loss(Graph& graph, PassContext& context) {
  if (context.options.loss.kind == "none") return false;
  LossAppender(graph, context).run();
  return true;
}

}  // namespace sardonyx::passes
