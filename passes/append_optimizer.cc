// append_optimizer: one update per parameter, bound to it. The gradient is divided once, here, by
// the true weight of the whole step, through the scalar `grad_scale`; a step whose loss or gradient
// is not finite has a NaN scale and changes nothing.
//
// Slots are states named after the parameter: "momentum/w", "adam/m/w", "adam/v/w", "ema/w". Which
// a kind of optimizer has, and what its operator is called, stands in rule_of().
// "optimizer/step" counts the updates that were really taken.
#include <algorithm>
#include <map>

#include "graph/names.h"
#include "graph/support/error.h"
#include "ops/core/op_builder.h"
#include "passes/globs.h"
#include "passes/node_facts.h"
#include "passes/pass.h"

namespace sardonyx::passes {

namespace {

using graph::Graph;
using graph::Node;
using graph::Value;

// What an update is made of.
struct UpdateRule {
  const char* op;
  std::vector<std::string> slots;  // prefixes of the states, in the order of the inputs; "": none
  bool reads_step = false;
  graph::Attributes attributes = {};
};

UpdateRule rule_of(const OptimizerOptions& o) {
  const std::string momentum = o.momentum != 0.0 ? "momentum/" : "";
  const graph::Attributes betas = {{"beta1", o.beta1}, {"beta2", o.beta2}};
  const graph::Attributes moments = {{"beta1", o.beta1}, {"beta2", o.beta2}, {"eps", o.eps}};
  if (o.kind == "sgd") {
    return {"SGD",
            {momentum},
            o.momentum != 0.0,
            {{"momentum", o.momentum},
             {"dampening", o.dampening},
             {"nesterov", int64_t{o.nesterov ? 1 : 0}}}};
  }
  if (o.kind == "adam") return {"Adam", {"adam/m/", "adam/v/"}, true, moments};
  if (o.kind == "adamw") return {"AdamW", {"adam/m/", "adam/v/"}, true, moments};
  if (o.kind == "adagrad") return {"Adagrad", {"adagrad/h/"}, false, {{"eps", o.eps}}};
  if (o.kind == "rmsprop") {
    return {"RMSprop",
            {"rmsprop/v/", o.centered ? "rmsprop/mean/" : "", momentum},
            false,
            {{"alpha", o.alpha}, {"eps", o.eps}, {"momentum", o.momentum}}};
  }
  if (o.kind == "lion") return {"Lion", {"lion/m/"}, false, betas};
  if (o.kind == "lamb") return {"LAMB", {"lamb/m/", "lamb/v/"}, true, moments};
  if (o.kind == "lars") {
    return {"LARS", {momentum}, false, {{"momentum", o.momentum}, {"trust", o.trust}}};
  }
  throw Error(
      "there is no optimizer '{}'; known: sgd, adam, adamw, adagrad, rmsprop, lion, lamb, lars",
      o.kind);
}

class OptimizerAppender {
 public:
  OptimizerAppender(Graph& graph, PassContext& context)
      : graph_(graph),
        context_(context),
        options_(context.options.optimizer),
        rule_(rule_of(options_)),
        b_(graph) {}

  void run() {
    check_options();
    for (const ParameterRow& row : context_.parameters) parts_.emplace(row.name, row.part);
    context_.learning_rate = graph::fresh_name(graph_, "lr");
    // In double whatever the compute type: what follows from it is rounded once, as in PyTorch.
    lr_ = graph_.add_input(context_.learning_rate, {graph::DType::kFloat64, {}});
    append_scale();
    const bool remembers =
        std::ranges::any_of(rule_.slots, [](const std::string& prefix) { return !prefix.empty(); });
    if (remembers) {
      step_ = graph_.add_state("optimizer/step", graph::TensorType(graph::DType::kInt64, {}),
                               graph::StateRole::kCounter);
    }
    for (const auto& [parameter, gradient] : context_.gradients) {
      Value* w = graph_.find(parameter);
      Value* next = update(w, graph_.find(gradient));
      graph_.bind(w, next);
      if (options_.ema > 0) average(w, next);
    }
    for (const auto& [statistic, next] : context_.statistics) commit(statistic, next);
    if (step_ != nullptr) {
      graph_.bind(step_, b_.own("Advance", {step_, scale_}, {}, step_->name + "'"));
    }
  }

 private:
  void check_options() const {
    if (options_.clip_norm != 0.0 && options_.clip_value != 0.0) {
      throw Error("--clip-norm {} and --clip-value {}: give one of them", options_.clip_norm,
                  options_.clip_value);
    }
    std::vector<std::string> names;
    for (const auto& [parameter, gradient] : context_.gradients) names.push_back(parameter);
    for (const OptimizerGroup& group : options_.groups) {
      require_match("--group", group.glob, names, "trainable parameter");
    }
  }

  // --- scale

  void append_scale() {
    std::vector<Value*> inputs{graph_.find(context_.loss_weight), graph_.find(context_.loss_sum)};
    for (Value* norm : norms()) inputs.push_back(norm);
    graph::Attributes attributes{{"divide", int64_t{context_.options.loss.mean ? 1 : 0}}};
    if (options_.clip_norm != 0.0) attributes["clip_norm"] = options_.clip_norm;
    Node* node =
        b_.node(ops::kDomain, "GradScale", inputs, {"grad_scale", "grad_norm"}, attributes);
    scale_ = node->output(0);
    context_.grad_scale = scale_->name;
    context_.grad_norm = node->output(1)->name;
    graph_.add_output(node->output(1));
    graph_.add_output(scale_);
  }

  // Gradients that lie in one bucket are measured by one node.
  std::vector<Value*> norms() {
    std::vector<std::pair<std::string, std::vector<Value*>>> measured;
    const Value* last = nullptr;
    for (const auto& [parameter, gradient] : context_.gradients) {
      Value* g = graph_.find(gradient);
      const Value* whole = viewed(g);
      if (whole != g && whole == last) {
        measured.back().first = whole->name;
        measured.back().second.push_back(g);
      } else {
        measured.push_back({parameter, {g}});
      }
      last = whole;
    }
    NodeOrder order(graph_);
    std::vector<Value*> norms;
    for (auto& [name, gradients] : measured) {
      norms.push_back(norm_of("norm2/" + name, gradients, order));
    }
    return norms;
  }

  // Right behind the last of the gradients, which is in cache then.
  Value* norm_of(const std::string& name, const std::vector<Value*>& gradients, NodeOrder& order) {
    const std::vector<const Value*> measured(gradients.begin(), gradients.end());
    ops::OpBuilder b(graph_, order.behind(measured));
    Value* norm = b.own("SquaredNorm", gradients, {}, name);
    order.put(norm->producer, measured);
    return norm;
  }

  // --- updates

  // The parameter's next value; its slots are bound here.
  Value* update(Value* w, Value* g) {
    CHECK(w != nullptr && g != nullptr);
    std::vector<Value*> inputs{w, g, lr_, scale_}, slots;
    std::vector<std::string> outputs{w->name + "'"};
    for (const std::string& prefix : rule_.slots) {
      slots.push_back(prefix.empty() ? nullptr : slot(prefix, w));
      outputs.push_back(prefix.empty() ? "" : slots.back()->name + "'");
    }
    inputs.insert(inputs.end(), slots.begin(), slots.end());
    if (rule_.reads_step) inputs.push_back(step_);
    while (inputs.back() == nullptr) inputs.pop_back();
    while (outputs.back().empty()) outputs.pop_back();
    Node* node = b_.node(ops::kDomain, rule_.op, inputs, outputs, attributes_for(w->name));
    for (size_t i = 0; i < slots.size(); ++i) {
      if (slots[i] != nullptr) graph_.bind(slots[i], node->output(static_cast<int>(i) + 1));
    }
    return node->output(0);
  }

  // Refused together with the update; the mean over the replicas that had samples, unless it is
  // the same on all.
  void commit(const std::string& statistic, const std::string& next) {
    Value* state = graph_.find(statistic);
    if (graph_.bound(state) != nullptr) graph_.unbind(state);
    const bool shared = context_.shared_statistics.states.contains(statistic);
    Value* replicas = shared ? nullptr : graph_.find(context_.replicas_with_samples);
    graph_.bind(state, b_.own("CommitStatistic", {state, graph_.find(next), scale_, replicas}, {},
                              statistic + "''"));
  }

  Value* slot(const std::string& prefix, const Value* w) {
    return graph_.add_state(prefix + w->name, w->type, graph::StateRole::kOptimizer);
  }

  graph::Attributes attributes_for(const std::string& parameter) const {
    const auto group = std::ranges::find_if(options_.groups, [&](const OptimizerGroup& g) {
      return graph::glob_match(g.glob, parameter);
    });
    const bool grouped = group != options_.groups.end();
    graph::Attributes attributes{{"weight_decay", grouped && group->weight_decay
                                                      ? *group->weight_decay
                                                      : default_weight_decay(parameter)}};
    if (grouped && group->lr_factor != 1.0) attributes["lr_factor"] = group->lr_factor;
    if (options_.clip_value != 0.0) attributes["clip_value"] = options_.clip_value;
    attributes.insert(rule_.attributes.begin(), rule_.attributes.end());
    return attributes;
  }

  double default_weight_decay(const std::string& parameter) const {
    const ParameterPart& part = parts_.at(parameter);
    const bool spared =
        (part.norm && !options_.decay_norms) || (part.bias && !options_.decay_biases);
    return spared ? 0.0 : options_.weight_decay;
  }

  void average(Value* w, Value* next) {
    Value* ema = graph_.add_state("ema/" + w->name, w->type, graph::StateRole::kOptimizer, w->data);
    graph_.bind(ema,
                b_.own("Ema", {ema, next, scale_}, {{"decay", options_.ema}}, ema->name + "'"));
  }

  Graph& graph_;
  PassContext& context_;
  const OptimizerOptions& options_;
  UpdateRule rule_;
  ops::OpBuilder b_;
  std::map<std::string, ParameterPart> parts_;
  Value* lr_ = nullptr;
  Value* scale_ = nullptr;
  Value* step_ = nullptr;
};

}  // namespace

bool append_optimizer(Graph& graph, PassContext& context) {
  if (!ends_step(context.options.micro_batch)) return false;
  if (!context.grad_scale.empty()) throw Error("the graph has its updates already");
  OptimizerAppender(graph, context).run();
  return true;
}

}  // namespace sardonyx::passes
