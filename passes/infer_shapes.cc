// infer_shapes: types of all values, and folding of shape arithmetic on the way (a Reshape needs
// the numbers of the Shape, Gather, Concat chain in front of it before its own shape is known).
//
// Nodes that can't be typed are listed in the context, not refused: a branch that the loss doesn't
// need may hold anything. What the file declares about interior values is only a hint; a
// contradiction is said once.
#include "graph/support/error.h"
#include "ops/core/infer.h"
#include "ops/core/kernel.h"
#include "passes/fold.h"
#include "passes/pass.h"

namespace sardonyx::passes {

namespace {

using graph::Node;
using graph::TensorType;
using graph::Value;

bool contradicts(const TensorType& declared, const TensorType& inferred) {
  if (!declared.ranked || !inferred.ranked) return false;
  if (declared.rank() != inferred.rank()) return true;
  for (int i = 0; i < declared.rank(); ++i) {
    const auto& a = declared.dims[i];
    const auto& b = inferred.dims[i];
    if (a.known() && b.known() && a.value != b.value) return true;
  }
  return false;
}

bool inputs_known(const Node& node) {
  for (const Value* value : node.inputs()) {
    if (value != nullptr && value->type.dtype == graph::DType::kUndefined) return false;
  }
  return true;
}

void forget_outputs(Node& node) {
  for (Value* value : node.outputs()) {
    if (value != nullptr && value->type.dtype == graph::DType::kUndefined) {
      value->type = TensorType::unranked(graph::DType::kUndefined);
    }
  }
}

// "operator set 17", "version 2 of acme.ops": where an operator was looked for.
std::string opset_of(const graph::Graph& graph, const Node& node) {
  const auto it = graph.opsets.find(node.domain);
  if (it == graph.opsets.end()) return "a domain without a version";
  return node.domain.empty() ? fmt::format("operator set {}", it->second)
                             : fmt::format("version {} of {}", it->second, node.domain);
}

// Own nodes count an accumulator among their inputs, and the builder makes them right.
void check_counts(const Node& node, const ops::OpDef& op) {
  if (node.domain == ops::kDomain) return;
  const auto check = [&](const std::vector<ops::Port>& ports, int found, const char* what) {
    const int most = static_cast<int>(ports.size());
    const bool variadic = !ports.empty() && ports.back().presence == ops::Presence::kVariadic;
    if (found <= most || variadic) return;
    throw Error("node {} has {} {}s, but {} {} at most {}", node.label(), found, what,
                ops::op_label(node.domain, node.op), what[0] == 'i' ? "takes" : "gives", most);
  };
  check(op.inputs, node.num_inputs(), "input");
  check(op.outputs, node.num_outputs(), "output");
}

}  // namespace

bool infer_shapes(graph::Graph& graph, PassContext& context) {
  std::vector<Node*> nodes;
  for (Node& node : graph.nodes()) nodes.push_back(&node);
  int stale = 0;
  std::string example;
  for (Node* node : nodes) {
    const ops::OpDef* op = ops::OpRegistry::get().find(*node);
    if (op == nullptr) {
      context.unsupported.push_back(
          {node->label(), ops::op_label(node->domain, node->op),
           fmt::format("not known (looked for in {})", opset_of(graph, *node))});
      forget_outputs(*node);
      continue;
    }
    check_counts(*node, *op);
    if (!inputs_known(*node)) {
      forget_outputs(*node);
      continue;
    }
    std::vector<TensorType> declared;
    for (const Value* value : node->outputs()) {
      declared.push_back(value == nullptr ? TensorType() : value->type);
    }
    ops::infer_node(*node);
    for (int i = 0; i < node->num_outputs(); ++i) {
      const Value* value = node->output(i);
      if (value == nullptr || !contradicts(declared[i], value->type)) continue;
      if (graph.is_output(value) && declared[i].rank() != value->type.rank()) {
        throw Error("graph output '{}' is declared as {}, but node {} computes {}", value->name,
                    declared[i].str(), node->label(), value->type.str());
      }
      if (stale++ == 0) {
        example = fmt::format("'{}' is declared as {}, but is {}", value->name, declared[i].str(),
                              value->type.str());
      }
    }
    if (folds_as_shape_arithmetic(*node)) fold_node(graph, *node);
  }
  if (stale > 0) {
    context.notice(
        fmt::format("{} declared shape{} in the file {} stale (own inference is used): {}", stale,
                    stale == 1 ? "" : "s", stale == 1 ? "is" : "are", example));
  }
  return true;
}

}  // namespace sardonyx::passes
