#include "passes/backward.h"

#include "graph/names.h"
#include "graph/support/error.h"
#include "ops/core/gradient.h"

namespace sardonyx::passes {

namespace {

using graph::Graph;
using graph::Node;
using graph::Value;

bool is_float(const Value* value) {
  return value != nullptr && graph::is_floating(value->type.dtype);
}

const ops::Port* port_of(const ops::OpDef& op, int i) {
  if (op.inputs.empty()) return nullptr;
  const size_t index = std::min<size_t>(i, op.inputs.size() - 1);
  return &op.inputs[index];
}

}  // namespace

bool gradient_flows(const Node& node, int i) {
  const ops::OpDef* op = ops::OpRegistry::get().find(node);
  if (op == nullptr) return is_float(node.input(i));
  if (!is_float(node.input(i)) || op->gradient.kind == ops::Gradient::Kind::kZero) return false;
  const ops::Port* port = port_of(*op, i);
  if (port != nullptr && !port->no_gradient.empty()) return false;
  for (const Value* value : node.outputs()) {
    if (is_float(value)) return true;
  }
  return false;
}

std::unordered_set<const Value*> values_reaching(const Graph& graph,
                                                 const std::vector<Value*>& targets) {
  std::unordered_set<const Value*> reaching;
  for (const Value* value : targets) {
    if (is_float(value)) reaching.insert(value);
  }
  const auto& nodes = graph.nodes();
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    bool on_path = false;
    for (const Value* value : node->outputs())
      on_path |= value != nullptr && reaching.contains(value);
    if (!on_path) continue;
    for (int i = 0; i < node->num_inputs(); ++i) {
      if (gradient_flows(*node, i)) reaching.insert(node->input(i));
    }
  }
  return reaching;
}

namespace {

class Differentiator {
 public:
  explicit Differentiator(Graph& graph) : graph_(graph), b_(graph) {}

  std::unordered_map<Value*, Value*> run(const std::vector<std::pair<Value*, Value*>>& seeds,
                                         const std::vector<Value*>& wrt) {
    find_active(wrt);
    for (const auto& [value, gradient] : seeds) contributions_[value].push_back(gradient);
    // Only the forward nodes: rules append behind them.
    std::vector<Node*> nodes;
    for (Node& node : graph_.nodes()) nodes.push_back(&node);
    refuse_missing(nodes, seeds);
    for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) visit(**it);
    std::unordered_map<Value*, Value*> result;
    for (Value* value : wrt) {
      if (Value* gradient = joined(value)) result[value] = gradient;
    }
    return result;
  }

 private:
  // Values that depend on a wrt value through paths on which a gradient flows.
  void find_active(const std::vector<Value*>& wrt) {
    active_.insert(wrt.begin(), wrt.end());
    for (const Node& node : graph_.nodes()) {
      if (!has_active_input(node)) continue;
      for (Value* value : node.outputs()) {
        if (is_float(value)) active_.insert(value);
      }
    }
  }

  bool has_active_input(const Node& node) const {
    for (int i = 0; i < node.num_inputs(); ++i) {
      if (active_.contains(node.input(i)) && gradient_flows(node, i)) return true;
    }
    return false;
  }

  void refuse_missing(const std::vector<Node*>& nodes,
                      const std::vector<std::pair<Value*, Value*>>& seeds) const {
    std::vector<Value*> targets;
    for (const auto& [value, gradient] : seeds) targets.push_back(value);
    const auto reaching = values_reaching(graph_, targets);
    std::string missing;
    for (const Node* node : nodes) {
      const ops::OpDef& op = ops::OpRegistry::get().at(*node);
      if (op.gradient.kind != ops::Gradient::Kind::kNone || !has_active_input(*node)) continue;
      bool on_path = false;
      for (const Value* value : node->outputs()) on_path |= reaching.contains(value);
      if (on_path) {
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

  void visit(Node& node) {
    if (!has_active_input(node)) return;
    std::vector<Value*> dy;
    bool any = false;
    for (Value* value : node.outputs()) {
      dy.push_back(value == nullptr ? nullptr : joined(value));
      any |= dy.back() != nullptr;
    }
    const ops::OpDef& op = ops::OpRegistry::get().at(node);
    if (!any || op.gradient.kind != ops::Gradient::Kind::kRule) return;
    std::vector<bool> wanted;
    for (int i = 0; i < node.num_inputs(); ++i) {
      wanted.push_back(active_.contains(node.input(i)) && gradient_flows(node, i));
    }
    b_.set_forward_node(node.label());
    ops::GradientContext context(node, b_, std::move(dy), wanted);
    with_context([&] { return "building the gradient of node " + node.label(); },
                 [&] { op.gradient.rule(context); });
    for (int i = 0; i < node.num_inputs(); ++i) {
      Value* dx = context.result()[i];
      CHECK(dx != nullptr || !wanted[i], "the gradient rule of {} leaves out input {}",
            node.label(), i);
      if (dx != nullptr) contribute(node.input(i), dx, node);
    }
  }

  void contribute(Value* x, Value* dx, const Node& node) {
    // A value this rule made is named after what it is the gradient of; one that is passed through
    // keeps its name.
    const bool made_here = dx->producer != nullptr && dx->producer->forward_node == node.label() &&
                           named_.insert(dx).second;
    std::vector<Value*>& parts = contributions_[x];
    const std::string name = "d" + x->name + (parts.empty() ? "" : ".part");
    if (made_here) graph_.rename(dx, graph::fresh_name(graph_, name));
    parts.push_back(dx);
  }

  Value* joined(Value* value) {
    const auto it = contributions_.find(value);
    if (it == contributions_.end()) return nullptr;
    std::vector<Value*>& parts = it->second;
    if (parts.size() > 1) {
      // The sum gets the name of the gradient; what it joins are its parts.
      for (Value* part : parts) {
        if (named_.contains(part) && part->name == "d" + value->name) {
          graph_.rename(part, graph::fresh_name(graph_, part->name + ".part"));
        }
      }
      b_.set_forward_node("");
      Value* sum = b_.op("Sum", parts, {}, "d" + value->name);
      named_.insert(sum);
      parts = {sum};
    }
    return parts[0];
  }

  Graph& graph_;
  ops::OpBuilder b_;
  std::unordered_set<const Value*> active_;
  std::unordered_set<const Value*> named_;
  std::unordered_map<Value*, std::vector<Value*>> contributions_;
};

}  // namespace

std::unordered_map<Value*, Value*> differentiate(
    Graph& graph, const std::vector<std::pair<Value*, Value*>>& seeds,
    const std::vector<Value*>& wrt) {
  return Differentiator(graph).run(seeds, wrt);
}

}  // namespace sardonyx::passes
