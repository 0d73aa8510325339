// append_optimizer: one update per parameter, bound to it. The gradient is divided once, here, by
// the true weight of the whole step, through the scalar `grad_scale`; a step whose loss or gradient
// is not finite has a NaN scale and changes nothing.
#include "graph/names.h"
#include "graph/support/error.h"
#include "ops/core/op_builder.h"
#include "passes/pass.h"

namespace sardonyx::passes {

namespace {

using graph::Graph;
using graph::Node;
using graph::Value;

class OptimizerAppender {
 public:
  OptimizerAppender(Graph& graph, PassContext& context)
      : graph_(graph), context_(context), options_(context.options.optimizer), b_(graph) {}

  void run() {
    if (options_.kind != "sgd")
      throw Error("there is no optimizer '{}'; known: sgd", options_.kind);
    const graph::TensorType scalar(context_.options.dtype, {});
    context_.learning_rate = graph::fresh_name(graph_, "lr");
    lr_ = graph_.add_input(context_.learning_rate, scalar);
    append_scale();
    if (options_.momentum != 0.0) {
      started_ = graph_.add_state("sgd/started", graph::TensorType(graph::DType::kInt64, {}),
                                  graph::StateRole::kCounter);
    }
    for (const auto& [parameter, gradient] : context_.gradients) {
      update(graph_.find(parameter), graph_.find(gradient));
    }
    if (started_ != nullptr) {
      graph_.bind(started_, b_.own("Started", {started_, scale_}, {}, "sgd/started'"));
    }
  }

 private:
  void append_scale() {
    std::vector<Value*> inputs{graph_.find(context_.loss_weight), graph_.find(context_.loss_sum)};
    for (const auto& [parameter, gradient] : context_.gradients) {
      inputs.push_back(b_.own("SquaredNorm", {graph_.find(gradient)}, {}, "norm2/" + parameter));
    }
    Node* node = b_.node(ops::kDomain, "GradScale", inputs, {"grad_scale", "grad_norm"},
                         {{"divide", int64_t{context_.options.loss.mean ? 1 : 0}}});
    scale_ = node->output(0);
    context_.grad_norm = node->output(1)->name;
    graph_.add_output(node->output(1));
  }

  void update(Value* w, Value* g) {
    CHECK(w != nullptr && g != nullptr);
    std::vector<Value*> inputs{w, g, lr_, scale_};
    std::vector<std::string> outputs{w->name + "'"};
    Value* m = nullptr;
    if (started_ != nullptr) {
      m = graph_.add_state("momentum/" + w->name, w->type, graph::StateRole::kOptimizer);
      inputs.insert(inputs.end(), {m, started_});
      outputs.push_back(m->name + "'");
    }
    Node* node = b_.node(ops::kDomain, "SGD", inputs, outputs,
                         {{"momentum", options_.momentum},
                          {"dampening", options_.dampening},
                          {"nesterov", int64_t{options_.nesterov ? 1 : 0}},
                          {"weight_decay", options_.weight_decay}});
    graph_.bind(w, node->output(0));
    if (m != nullptr) graph_.bind(m, node->output(1));
  }

  Graph& graph_;
  PassContext& context_;
  const OptimizerOptions& options_;
  ops::OpBuilder b_;
  Value* lr_ = nullptr;
  Value* scale_ = nullptr;
  Value* started_ = nullptr;
};

}  // namespace

bool append_optimizer(Graph& graph, PassContext& context) {
  const MicroBatch micro_batch = context.options.micro_batch;
  if (micro_batch == MicroBatch::kFirst || micro_batch == MicroBatch::kMiddle) return false;
  OptimizerAppender(graph, context).run();
  return true;
}

}  // namespace sardonyx::passes
