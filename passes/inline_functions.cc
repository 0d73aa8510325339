// inline_functions: calls of model-local functions are replaced by their bodies. Inner values are
// named "CALL/INNER", inner origins carry the call path, so that saving finds the weights inside
// the body. Nodes with graphs inside are prepared for infer_shapes (passes/branches.h): what these
// graphs read from around them, by a name that may not last, becomes inputs of the node.
#include <algorithm>

#include "graph/function_calls.h"
#include "graph/names.h"
#include "graph/subgraph.h"
#include "graph/support/error.h"
#include "passes/hand_over.h"
#include "passes/node_opset.h"
#include "passes/pass.h"

namespace sardonyx::passes {

namespace {

using graph::Function;
using graph::Graph;
using graph::Node;
using graph::Value;

const Function* function_of(const PassContext& context, const Node& node) {
  if (context.functions == nullptr) return nullptr;
  for (const Function& function : *context.functions) {
    if (function.domain == node.domain && function.name == node.op) return &function;
  }
  return nullptr;
}

class Inliner {
 public:
  Inliner(Graph& graph, const PassContext& context) : graph_(graph), context_(context) {}

  bool run() {
    for (Node& node : graph_.nodes()) drop_notes(node);
    const auto labels = labels_of(graph_);
    std::vector<Node*> nodes;
    for (Node& node : graph_.nodes()) nodes.push_back(&node);
    bool changed = false;
    for (Node* node : nodes) changed |= capture(*node, labels);
    for (Node* node : nodes) {
      if (const Function* function = function_of(context_, *node)) {
        expand(node, *function, labels.at(node), 1);
        changed = true;
      }
    }
    return changed;
  }

 private:
  std::map<const Node*, std::string> labels_of(const Graph& body) const {
    static const std::vector<Function> kNone;
    return graph::call_labels(body, context_.functions == nullptr ? kNone : *context_.functions);
  }

  // The notes are ours: no file can say them.
  static void drop_notes(Node& node) {
    node.attributes.erase(kOpsetOfNode);
    node.attributes.erase(kPathOfNode);
  }

  // A node of the main graph.
  bool capture(Node& node, const std::map<const Node*, std::string>& labels) {
    std::vector<Value*> captured;
    const auto graphs = graph::subgraphs_of(node);
    for (const auto& [name, graph] : graphs) {
      for (const std::string& outer : graph->outer_values) {
        captured.push_back(graph_.find(outer));
        if (captured.back() == nullptr) return false;  // a text that was written by hand
      }
    }
    if (graphs.empty()) return false;
    for (Value* value : captured) graph_.set_input(&node, node.num_inputs(), value);
    node.attributes[kPathOfNode] = labels.at(&node);
    return true;
  }

  void expand(Node* call, const Function& function, const std::string& path, int depth) {
    CHECK(depth <= graph::kDeepestCalls);  // the import has counted
    std::map<std::string, Value*> values;
    for (size_t i = 0; i < function.inputs.size(); ++i) {
      values[function.inputs[i]] = call->input(static_cast<int>(i));
    }
    const auto labels = labels_of(*function.body);
    struct InnerCall {
      Node* node;
      const Function* function;
      std::string path;
    };
    std::vector<InnerCall> inner_calls;
    for (const Node& body_node : function.body->nodes()) {
      Node* copy = copy_node(body_node, *call, function, path, values);
      const auto label = labels.find(&body_node);
      if (label == labels.end()) continue;
      const std::string inner_path = path + "/" + label->second;
      if (const Function* inner = function_of(context_, *copy)) {
        inner_calls.push_back({copy, inner, inner_path});
      } else {
        copy->attributes[kPathOfNode] = inner_path;
      }
    }
    for (size_t i = 0; i < function.outputs.size(); ++i) {
      Value* output = call->output(static_cast<int>(i));
      if (output == nullptr) continue;
      Value* inner = values.at(function.outputs[i]);
      if (inner == nullptr) {
        throw Error(
            "node {}: output {} of function {} is its input '{}', which this call leaves out",
            call->label(), i, function.name, function.outputs[i]);
      }
      const bool handed_on = std::ranges::count(call->inputs(), inner) > 0;
      hand_over(*call, static_cast<int>(i), inner, handed_on ? MadeBy::kOutside : MadeBy::kBody);
    }
    graph_.remove(call);
    for (const InnerCall& inner : inner_calls) {
      expand(inner.node, *inner.function, inner.path, depth + 1);
    }
  }

  Node* copy_node(const Node& body_node, const Node& call, const Function& function,
                  const std::string& path, std::map<std::string, Value*>& values) {
    std::vector<Value*> inputs;
    for (const Value* value : body_node.inputs()) {
      inputs.push_back(value == nullptr ? nullptr : values.at(value->name));
    }
    const auto graphs = graph::subgraphs_of(body_node);
    for (const auto& [name, graph] : graphs) {
      for (const std::string& outer : graph->outer_values) inputs.push_back(values.at(outer));
    }
    std::vector<std::string> names;
    for (const Value* value : body_node.outputs()) {
      names.push_back(value == nullptr ? "" : graph::fresh_name(graph_, path + "/" + value->name));
    }
    Node* copy = graph_.add_node(body_node.domain, body_node.op, std::move(inputs), names,
                                 const_cast<Node*>(&call));
    copy->name = body_node.name.empty() ? "" : path + "/" + body_node.name;
    copy->origin = body_node.origin;
    copy->origin.path = path;
    for (const auto& [name, attribute] : body_node.attributes) {
      copy_attribute(*copy, name, attribute, call, function);
    }
    drop_notes(*copy);
    keep_opset(*copy, function);
    for (int i = 0; i < body_node.num_outputs(); ++i) {
      const Value* from = body_node.output(i);
      if (from == nullptr) continue;
      values[from->name] = copy->output(i);
      copy->output(i)->origin = from->origin;
      copy->output(i)->origin.path = path;
    }
    return copy;
  }

  // A function may be written for another version of a domain than the model; canonicalize reads
  // this.
  void keep_opset(Node& copy, const Function& function) {
    const auto own = function.opsets.find(copy.domain);
    if (own == function.opsets.end()) return;
    const auto [model, absent] = graph_.opsets.try_emplace(copy.domain, own->second);
    if (!absent && model->second != own->second) copy.attributes[kOpsetOfNode] = own->second;
  }

  static void copy_attribute(Node& copy, const std::string& name, const graph::Attribute& attribute,
                             const Node& call, const Function& function) {
    const auto find = [&](const std::string& wanted) -> const graph::Attribute* {
      for (const auto* attributes : {&call.attributes, &function.attribute_defaults}) {
        if (const auto it = attributes->find(wanted); it != attributes->end()) return &it->second;
      }
      return nullptr;
    };
    if (const auto* graph = std::get_if<graph::GraphAttribute>(&attribute)) {
      copy.attributes[name] = graph::bind_references(*graph, find);
    } else if (const auto* reference = std::get_if<graph::AttributeReference>(&attribute)) {
      const graph::Attribute* value = find(reference->name);
      if (value == nullptr) return;
      if (std::holds_alternative<graph::GraphAttribute>(*value)) {
        throw Error("node {}: passes a graph to the function {}, which is not supported",
                    call.label(), function.name);
      }
      copy.attributes[name] = *value;
    } else {
      copy.attributes[name] = attribute;
    }
  }

  Graph& graph_;
  const PassContext& context_;
};

}  // namespace

bool inline_functions(Graph& graph, PassContext& context) { return Inliner(graph, context).run(); }

}  // namespace sardonyx::passes
