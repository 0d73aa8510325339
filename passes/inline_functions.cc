// inline_functions: calls of model-local functions are replaced by their bodies. Inner values are
// named "CALL/INNER", inner origins carry the call path, so that saving finds the weights inside
// the body.
#include "graph/names.h"
#include "graph/support/error.h"
#include "passes/node_opset.h"
#include "passes/pass.h"

namespace sardonyx::passes {

namespace {

using graph::Function;
using graph::Graph;
using graph::Node;
using graph::Value;

// Deeper or larger expansion than any exporter writes: a file built to explode is refused, not run.
constexpr int kMaxDepth = 64;
constexpr size_t kMaxInlinedNodes = 1000000;

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
    for (Node& node : graph_.nodes()) drop_note(node);
    if (context_.functions == nullptr || context_.functions->empty()) return false;
    const auto labels = graph::call_labels(graph_, *context_.functions);
    std::vector<Node*> nodes;
    for (Node& node : graph_.nodes()) nodes.push_back(&node);
    bool changed = false;
    for (Node* node : nodes) {
      if (const Function* function = function_of(context_, *node)) {
        expand(node, *function, labels.at(node), 1);
        changed = true;
      }
    }
    return changed;
  }

 private:
  // The note is ours: no file can say it.
  static void drop_note(Node& node) { node.attributes.erase(kOpsetOfNode); }

  void expand(Node* call, const Function& function, const std::string& path, int depth) {
    if (depth > kMaxDepth) {
      throw Error("node {}: functions call each other more than {} deep", call->label(), kMaxDepth);
    }
    std::map<std::string, Value*> values;
    for (size_t i = 0; i < function.inputs.size(); ++i) {
      values[function.inputs[i]] = call->input(static_cast<int>(i));
    }
    const auto labels = graph::call_labels(*function.body, *context_.functions);
    struct InnerCall {
      Node* node;
      const Function* function;
      std::string path;
    };
    std::vector<InnerCall> inner_calls;
    for (const Node& body_node : function.body->nodes()) {
      if (++inlined_ > kMaxInlinedNodes) {
        throw Error("the model-local functions expand to more than {} nodes", kMaxInlinedNodes);
      }
      Node* copy = copy_node(body_node, *call, function, path, values);
      if (const Function* inner = function_of(context_, *copy))
        inner_calls.emplace_back(copy, inner);
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
      hand_over(call, static_cast<int>(i), inner);
    }
    graph_.remove(call);
    for (const InnerCall& inner : inner_calls) {
      expand(inner.node, *inner.function, inner.path, depth + 1);
    }
  }

  // The call's output keeps its name: graph outputs and users refer to it.
  void hand_over(Node* call, int slot, Value* inner) {
    Value* output = call->output(slot);
    const std::string name = output->name;
    const graph::Origin origin = output->origin;
    const bool rename = inner->kind == graph::ValueKind::kResult && !graph_.is_output(inner);
    graph_.replace_uses(output, inner);
    graph_.drop_output_value(call, slot);
    if (rename && graph_.find(name) == nullptr) {
      graph_.rename(inner, name);
      // The weight of a Constant node stays where it stands in the file.
      if (inner->origin.kind != graph::Origin::Kind::kConstantNode) inner->origin = origin;
    }
  }

  Node* copy_node(const Node& body_node, const Node& call, const Function& function,
                  const std::string& path, std::map<std::string, Value*>& values) {
    std::vector<Value*> inputs;
    for (const Value* value : body_node.inputs()) {
      inputs.push_back(value == nullptr ? nullptr : values.at(value->name));
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
    drop_note(*copy);
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
    const auto* reference = std::get_if<graph::AttributeReference>(&attribute);
    if (reference == nullptr) {
      copy.attributes[name] = attribute;
      return;
    }
    if (const auto given = call.attributes.find(reference->name); given != call.attributes.end()) {
      copy.attributes[name] = given->second;
    } else if (const auto fallback = function.attribute_defaults.find(reference->name);
               fallback != function.attribute_defaults.end()) {
      copy.attributes[name] = fallback->second;
    }
  }

  Graph& graph_;
  const PassContext& context_;
  size_t inlined_ = 0;
};

}  // namespace

bool inline_functions(Graph& graph, PassContext& context) { return Inliner(graph, context).run(); }

}  // namespace sardonyx::passes
