#include "passes/branches.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "graph/names.h"
#include "graph/subgraph.h"
#include "graph/support/error.h"
#include "graph/values_behind.h"
#include "passes/hand_over.h"
#include "passes/node_opset.h"
#include "passes/pass_manager.h"

namespace sardonyx::passes {

namespace {

using graph::Graph;
using graph::Node;
using graph::Value;

constexpr size_t kShownSources = 3;

// What stands before infer_shapes for reasons that hold inside a branch, too.
const Pipeline& reading_pipeline() {
  static const Pipeline pipeline = {{"inline_functions", "a branch may call functions"},
                                    {"lift_constants", "or hold weights"},
                                    {"canonicalize", "and has the opset of its surroundings"},
                                    {"convert_dtype", "but the types of the session"}};
  return pipeline;
}

std::map<std::string, int64_t> opsets_of(const Graph& graph, const Node& node,
                                         const PassContext& context) {
  std::map<std::string, int64_t> opsets = graph.opsets;
  if (node.has(kOpsetOfNode)) opsets[""] = node.get_int(kOpsetOfNode, 0);
  if (context.functions == nullptr) return opsets;
  // The domain of a function needs no import of its own.
  for (const graph::Function& function : *context.functions) opsets.emplace(function.domain, 1);
  return opsets;
}

class Branch {
 public:
  Branch(Graph& graph, PassContext& context, Node& node, const std::string& attribute)
      : graph_(graph),
        context_(context),
        node_(node),
        attribute_(attribute),
        path_(node.get_string(kPathOfNode, "") + "/" + attribute) {}

  std::vector<Node*> take() {
    read();
    for (Value* value : body_->constants()) copy_constant(*value);
    std::vector<Node*> nodes;
    for (const Node& node : body_->nodes()) nodes.push_back(copy_node(node));
    for (UnsupportedNode fault : inner_.unsupported) {
      fault.output = values_.at(body_->find(fault.output))->name;
      context_.unsupported.push_back(std::move(fault));
    }
    const std::unordered_set<const Node*> own(nodes.begin(), nodes.end());
    for (int i = 0; i < node_.num_outputs(); ++i) {
      if (node_.output(i) == nullptr) continue;
      Value* inner = values_.at(body_->outputs()[i]);
      if (inner == nullptr) {
        throw Error("{} hands on a value that the call of its function leaves out", attribute_);
      }
      hand_over(node_, i, inner, own.contains(inner->producer) ? MadeBy::kBody : MadeBy::kOutside);
    }
    graph_.remove(&node_);
    for (std::string& line : inner_.notices) context_.notice(std::move(line));
    return nodes;
  }

 private:
  void read() {
    const auto graphs = graph::subgraphs_of(node_);
    const auto branch = graphs.find(attribute_);
    if (branch == graphs.end()) throw Error("it has no {}", attribute_);
    body_ = graph::import_subgraph(*branch->second, opsets_of(graph_, node_, context_));
    if (std::ssize(body_->outputs()) < node_.num_outputs()) {
      throw Error("{} has {} outputs, but the node has {}", attribute_, body_->outputs().size(),
                  node_.num_outputs());
    }
    inner_.options = context_.options;
    inner_.functions = context_.functions;
    run_pipeline(*body_, inner_, reading_pipeline());
    int slot = node_.num_inputs();
    for (const auto& [name, graph] : graphs) slot -= static_cast<int>(graph->outer_values.size());
    for (const auto& [name, graph] : graphs) {
      for (const std::string& outer : graph->outer_values) {
        if (graph == branch->second) values_[body_->find(outer)] = node_.input(slot);
        ++slot;
      }
    }
  }

  graph::Origin moved(graph::Origin origin) const {
    origin.path = origin.path.empty() ? path_ : path_ + "/" + origin.path;
    return origin;
  }

  std::string fresh(const std::string& name) const {
    return graph::fresh_name(graph_, path_ + "/" + name);
  }

  void copy_constant(const Value& value) {
    Value* copy = graph_.add_constant(fresh(value.name), value.data);
    copy->origin = moved(value.origin);
    values_[&value] = copy;
  }

  Node* copy_node(const Node& from) {
    std::vector<Value*> inputs;
    for (const Value* value : from.inputs()) {
      inputs.push_back(value == nullptr ? nullptr : values_.at(value));
    }
    std::vector<std::string> names;
    for (const Value* value : from.outputs()) {
      names.push_back(value == nullptr ? "" : fresh(value->name));
    }
    Node* copy = graph_.add_node(from.domain, from.op, std::move(inputs), names, &node_);
    copy->name = from.name.empty() ? "" : path_ + "/" + from.name;
    copy->attributes = from.attributes;
    copy->origin = moved(from.origin);
    if (from.has(kPathOfNode)) {
      copy->attributes[kPathOfNode] = path_ + "/" + from.get_string(kPathOfNode, "");
    }
    for (int i = 0; i < from.num_outputs(); ++i) {
      if (from.output(i) == nullptr) continue;
      copy->output(i)->type = from.output(i)->type;
      copy->output(i)->origin = moved(from.output(i)->origin);
      values_[from.output(i)] = copy->output(i);
    }
    return copy;
  }

  Graph& graph_;
  PassContext& context_;
  Node& node_;
  const std::string attribute_, path_;
  PassContext inner_;
  std::unique_ptr<Graph> body_;
  std::unordered_map<const Value*, Value*> values_;  // of the body -> of the graph
};

// What the value is computed from that isn't known yet.
std::vector<std::string> sources_of(const Value* value) {
  std::vector<std::string> sources;
  for (const Value* next : graph::values_behind({value})) {
    if (next->kind == graph::ValueKind::kInput) {
      sources.push_back(fmt::format("the input '{}'", next->name));
    } else if (next->is_constant() && graph::is_floating(next->type.dtype)) {
      sources.push_back(
          fmt::format("the float tensor '{}', which training may change", next->name));
    }
  }
  return sources;
}

}  // namespace

bool is_branching(const Node& node) { return node.is("", "If") && node.has(kPathOfNode); }

bool branch_is_known(const Node& node) {
  return node.input(0) != nullptr && node.input(0)->is_constant();
}

std::vector<Node*> take_branch(Graph& graph, PassContext& context, Node& node) {
  const graph::Tensor& condition = node.input(0)->data;
  if (condition.dtype() != graph::DType::kBool || condition.numel() != 1) {
    throw Error("node {}: its condition '{}' is {}, expected one bool", node.label(),
                node.input(0)->name, condition.type().str());
  }
  const std::string attribute = condition.as_int(0) != 0 ? "then_branch" : "else_branch";
  const auto result = std::ranges::find_if(node.outputs(), std::identity());
  if (result != node.outputs().end()) {
    context.branches.emplace((*result)->name, PassContext::TakenBranch{node.label(), attribute});
  }
  return with_context([&] { return fmt::format("reading {} of node {}", attribute, node.label()); },
                      [&] { return Branch(graph, context, node, attribute).take(); });
}

std::string open_condition(const Node& node) {
  if (node.input(0) == nullptr) return fmt::format("node {} has no condition", node.label());
  std::vector<std::string> sources = sources_of(node.input(0));
  const size_t more = sources.size() - std::min(sources.size(), kShownSources);
  sources.resize(sources.size() - more);
  if (more > 0) sources.push_back(fmt::format("{} more", more));
  const Node* producer = node.input(0)->producer;
  return fmt::format(
      "node {}: its condition '{}'{} must be known before training starts, but it depends on {}; "
      "export the model without a branch on data (trace it, or give the flag a fixed value), or "
      "put "
      "the branch to train in its place",
      node.label(), node.input(0)->name,
      producer == nullptr ? "" : fmt::format(" (of node {})", producer->label()),
      sources.empty() ? "what isn't known yet" : fmt::format("{}", fmt::join(sources, ", ")));
}

}  // namespace sardonyx::passes
