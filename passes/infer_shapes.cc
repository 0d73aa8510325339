// infer_shapes: types of all values, and folding of shape arithmetic on the way (a Reshape needs
// the numbers of the Shape, Gather, Concat chain in front of it before its own shape is known).
//
// Nodes that can't be typed are listed in the context, not refused: a branch that the loss doesn't
// need may hold anything. Behind a fault no type is known, so that it has no follow-up errors;
// behind an operator that isn't known the declared types stand. An If whose condition is folded by
// then gives way to the branch that is taken. What the file declares about
// interior values is only a hint elsewhere; a contradiction is said once.
#include <algorithm>
#include <unordered_set>

#include "graph/support/error.h"
#include "ops/core/infer.h"
#include "ops/core/kernel.h"
#include "passes/branches.h"
#include "passes/fold.h"
#include "passes/missing_operators.h"
#include "passes/node_notices.h"
#include "passes/pass.h"

namespace sardonyx::passes {

namespace {

using graph::Node;
using graph::TensorType;
using graph::Value;

bool contradicts(const TensorType& declared, const TensorType& inferred) {
  if (declared.dtype != graph::DType::kUndefined && inferred.dtype != graph::DType::kUndefined &&
      declared.dtype != inferred.dtype) {
    return true;
  }
  if (!declared.ranked || !inferred.ranked) return false;
  if (declared.rank() != inferred.rank()) return true;
  for (int i = 0; i < declared.rank(); ++i) {
    const auto& a = declared.dims[i];
    const auto& b = inferred.dims[i];
    if (a.known() && b.known() && a.value != b.value) return true;
  }
  return false;
}

// "operator set 17", "version 2 of acme.ops": where an operator was looked for.
std::string opset_of(const graph::Graph& graph, const Node& node) {
  const auto it = graph.opsets.find(node.domain);
  if (it == graph.opsets.end()) return "a domain without a version";
  return node.domain.empty() ? fmt::format("operator set {}", it->second)
                             : fmt::format("version {} of {}", it->second, node.domain);
}

std::string why_unknown(const graph::Graph& graph, const Node& node) {
  const std::string missing =
      node.domain.empty() ? missing_standard_operator(node.op) : std::string();
  if (!missing.empty()) return missing;
  return fmt::format("not known (looked for in {})", opset_of(graph, node));
}

// Own nodes count an accumulator among their inputs, and the builder makes them right.
// Without those that are left out behind the last one that is there.
int given(const std::vector<graph::Value*>& values) {
  const auto last = std::find_if(values.rbegin(), values.rend(),
                                 [](const graph::Value* value) { return value != nullptr; });
  return static_cast<int>(values.rend() - last);
}

void check_counts(const Node& node, const ops::OpDef& op) {
  if (node.domain == ops::kDomain) return;
  const auto check = [&](const std::vector<ops::Port>& ports, int found, const char* what) {
    const int most = static_cast<int>(ports.size());
    const bool variadic = !ports.empty() && ports.back().presence == ops::Presence::kVariadic;
    if (found <= most || variadic) return;
    throw Error("node {} has {} {}s, but {} {} at most {}", node.label(), found, what,
                ops::op_label(node.domain, node.op), what[0] == 'i' ? "takes" : "gives", most);
  };
  check(op.inputs, given(node.inputs()), "input");
  check(op.outputs, given(node.outputs()), "output");
}

class Inferrer {
 public:
  Inferrer(graph::Graph& graph, PassContext& context)
      : graph_(graph), context_(context), folder_(graph) {
    note_faults(0);
  }

  void run() {
    std::vector<Node*> nodes;
    for (Node& node : graph_.nodes()) nodes.push_back(&node);
    for (Node* node : nodes) visit(*node);
    notices_.tell(context_);
    tell_branches();
    if (stale_ == 0) return;
    context_.notice(
        fmt::format("{} declared type{} in the file {} stale (own inference is used): {}", stale_,
                    stale_ == 1 ? "" : "s", stale_ == 1 ? "is" : "are", example_));
  }

 private:
  void note_faults(size_t first) {
    for (size_t i = first; i < context_.unsupported.size(); ++i) {
      faulty_names_.insert(context_.unsupported[i].output);
    }
  }

  void visit(Node& node) {
    if (is_branching(node)) return visit_branching(node);
    const ops::OpDef* op = ops::OpRegistry::get().find(node);
    if (op == nullptr) {
      context_.unsupported.push_back(
          unsupported(node, UnsupportedNode::Kind::kUnknownOperator, why_unknown(graph_, node)));
    }
    if (behind_fault(node)) {
      spread_fault(node);
    } else if (op == nullptr || !inputs_known(node)) {
      forget_undeclared(node);
    } else if (!context_.collect_fault(node, [&] { infer(node, *op); })) {
      spread_fault(node);
    }
  }

  void visit_branching(Node& node) {
    if (node.input(0) != nullptr && faulty_.contains(node.input(0))) return spread_fault(node);
    if (!branch_is_known(node)) {
      context_.unsupported.push_back(
          unsupported(node, UnsupportedNode::Kind::kFault, open_condition(node)));
      return forget_undeclared(node);
    }
    const std::string label = node.label();
    const size_t faults = context_.unsupported.size();
    std::vector<Node*> taken;
    if (!context_.collect_fault(node, [&] { taken = take_branch(graph_, context_, node); })) {
      return spread_fault(node);
    }
    note_faults(faults);
    if (branches_++ == 0) first_branch_ = label;
    for (Node* inner : taken) visit(*inner);
  }

  void tell_branches() {
    if (branches_ == 0) return;
    context_.notice(branches_ == 1
                        ? fmt::format("the condition of node {} doesn't depend on data: the branch "
                                      "that it takes is trained",
                                      first_branch_)
                        : fmt::format("the conditions of node {} and {} other If don't depend on "
                                      "data: the branches that they take are trained",
                                      first_branch_, branches_ - 1));
  }

  bool behind_fault(const Node& node) const {
    const auto faulty = [&](const Value* value) { return faulty_.contains(value); };
    return std::any_of(node.inputs().begin(), node.inputs().end(), faulty) ||
           std::any_of(node.outputs().begin(), node.outputs().end(), [&](const Value* value) {
             return value != nullptr && faulty_names_.contains(value->name);
           });
  }

  void spread_fault(Node& node) {
    for (Value* value : node.outputs()) {
      if (value == nullptr) continue;
      value->type = TensorType::unranked(graph::DType::kUndefined);
      faulty_.insert(value);
    }
  }

  static bool inputs_known(const Node& node) {
    return std::all_of(node.inputs().begin(), node.inputs().end(), [](const Value* value) {
      return value == nullptr || value->type.dtype != graph::DType::kUndefined;
    });
  }

  static void forget_undeclared(Node& node) {
    for (Value* value : node.outputs()) {
      if (value != nullptr && value->type.dtype == graph::DType::kUndefined) {
        value->type = TensorType::unranked(graph::DType::kUndefined);
      }
    }
  }

  void infer(Node& node, const ops::OpDef& op) {
    check_counts(node, op);
    std::vector<TensorType> declared;
    for (const Value* value : node.outputs()) {
      declared.push_back(value == nullptr ? TensorType() : value->type);
    }
    ops::infer_node(node);
    for (int i = 0; i < node.num_outputs(); ++i) {
      if (node.output(i) != nullptr) compare(node, *node.output(i), declared[i]);
    }
    if (op.hint) notices_.add(node, op.hint(node));
    folder_.fold_shape_arithmetic(node);
  }

  void compare(const Node& node, const Value& value, const TensorType& declared) {
    if (!contradicts(declared, value.type)) return;
    if (graph_.is_output(&value) && declared.rank() != value.type.rank()) {
      throw Error("graph output '{}' is declared as {}, but node {} computes {}", value.name,
                  declared.str(), node.label(), value.type.str());
    }
    if (stale_++ > 0) return;
    example_ = fmt::format("'{}' is declared as {}, but is {}", value.name, declared.str(),
                           value.type.str());
  }

  graph::Graph& graph_;
  PassContext& context_;
  Folder folder_;
  NodeNotices notices_;
  std::unordered_set<const Value*> faulty_;       // results of faulty nodes and what reads them
  std::unordered_set<std::string> faulty_names_;  // first results of nodes that were so before
  int branches_ = 0;                              // that were taken
  std::string first_branch_;
  int stale_ = 0;
  std::string example_;
};

}  // namespace

bool infer_shapes(graph::Graph& graph, PassContext& context) {
  Inferrer(graph, context).run();
  return true;
}

}  // namespace sardonyx::passes
