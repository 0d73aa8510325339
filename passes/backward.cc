#include "passes/backward.h"

#include <algorithm>

#include "graph/names.h"
#include "graph/support/error.h"
#include "ops/core/gradient.h"
#include "ops/core/gradient_flow.h"
#include "ops/core/reverse_walk.h"

namespace sardonyx::passes {

namespace {

using graph::Graph;
using graph::Node;
using graph::Value;

// What stands behind a node that can't be run has no type: a path ends there.
bool is_float(const Value* value) {
  return value != nullptr && graph::is_floating(value->type.dtype);
}

bool gives_one_of(const Node& node, const std::unordered_set<const Value*>& values) {
  return std::ranges::any_of(node.outputs(),
                             [&](const Value* value) { return values.contains(value); });
}

}  // namespace

std::unordered_set<const Value*> values_reaching(const Graph& graph,
                                                 const std::vector<Value*>& targets) {
  std::unordered_set<const Value*> reaching;
  for (const Value* value : targets) {
    if (is_float(value)) reaching.insert(value);
  }
  const auto& nodes = graph.nodes();
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    if (!gives_one_of(*node, reaching)) continue;
    for (int i = 0; i < node->num_inputs(); ++i) {
      if (is_float(node->input(i)) && ops::gradient_flows(*node, i)) {
        reaching.insert(node->input(i));
      }
    }
  }
  return reaching;
}

namespace {

// Refuses what can't be differentiated before the walk, and names what the walk makes.
class Differentiator final : public ops::ReverseWalk {
 public:
  Differentiator(Graph& graph, ops::OpBuilder& builder) : ReverseWalk(builder), graph_(graph) {}

  std::unordered_map<Value*, Value*> run(const std::vector<std::pair<Value*, Value*>>& seeds,
                                         const std::vector<Value*>& wrt) {
    for (const Value* value : wrt) want(value);
    for (const auto& [value, gradient] : seeds) add(value, gradient);
    // Only the forward nodes: rules append behind them.
    std::vector<Node*> nodes;
    for (Node& node : graph_.nodes()) {
      nodes.push_back(&node);
      follow(node);
    }
    refuse_missing(nodes, seeds);
    for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) visit(**it);
    std::unordered_map<Value*, Value*> result;
    for (Value* value : wrt) {
      if (Value* dx = gradient(value)) result[value] = dx;
    }
    return result;
  }

 private:
  void refuse_missing(const std::vector<Node*>& nodes,
                      const std::vector<std::pair<Value*, Value*>>& seeds) const {
    std::vector<Value*> targets;
    for (const auto& [value, gradient] : seeds) targets.push_back(value);
    const auto reaching = values_reaching(graph_, targets);
    std::string missing;
    for (const Node* node : nodes) {
      const ops::OpDef& op = ops::OpRegistry::get().at(*node);
      if (op.gradient.kind != ops::Gradient::Kind::kNone || !is_active(*node)) continue;
      if (gives_one_of(*node, reaching)) {
        missing += fmt::format("\n  node {}: {} has no gradient: {}", node->label(),
                               ops::op_label(op.domain, op.name), op.gradient.reason);
      }
    }
    if (!missing.empty()) {
      throw Error(
          "the loss can't be differentiated through these nodes; freeze the parameters in front "
          "of them or train another output:{}",
          missing);
    }
  }

  void begin_rule(const Node& node) override {
    for (const auto* values : {&node.inputs(), &node.outputs()}) {
      for (const Value* value : *values) {
        if (value != nullptr) ops::GradientContext::shape(value);
      }
    }
    b().set_forward_node(node.label());
  }

  // A value that the rule made is named after what it is the gradient of; one that is passed
  // through keeps its name.
  void take_part(const Value* x, Value* dx, const Node& node) override {
    const bool made_here = dx->producer != nullptr && dx->producer->forward_node == node.label() &&
                           named_.insert(dx).second;
    const std::string name = "d" + x->name + (has_gradient(x) ? ".part" : "");
    if (made_here) graph_.rename(dx, graph::fresh_name(graph_, name));
  }

  // The sum gets the name of the gradient; what it joins are its parts.
  Value* sum_of(const Value* x, const std::vector<Value*>& parts) override {
    for (Value* part : parts) {
      if (named_.contains(part) && part->name == "d" + x->name) {
        graph_.rename(part, graph::fresh_name(graph_, part->name + ".part"));
      }
    }
    b().set_forward_node("");
    Value* sum = b().op("Sum", parts, {}, "d" + x->name);
    named_.insert(sum);
    return sum;
  }

  Graph& graph_;
  std::unordered_set<const Value*> named_;
};

}  // namespace

std::unordered_map<Value*, Value*> differentiate(
    Graph& graph, const std::vector<std::pair<Value*, Value*>>& seeds,
    const std::vector<Value*>& wrt) {
  ops::OpBuilder builder(graph);
  return Differentiator(graph, builder).run(seeds, wrt);
}

}  // namespace sardonyx::passes
