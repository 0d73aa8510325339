#include "ops/core/inference_form.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "graph/subgraph.h"
#include "graph/support/error.h"

namespace sardonyx::ops {

namespace {

// What graphs inside attributes (bodies of If and Loop) read from around them.
std::set<std::string> read_inside(const graph::Graph& graph) {
  std::set<std::string> names;
  for (const Node& node : graph.nodes()) {
    for (const auto& [name, attribute] : node.attributes) {
      const auto* body = std::get_if<graph::GraphAttribute>(&attribute);
      if (body != nullptr) names.insert(body->outer_values.begin(), body->outer_values.end());
    }
  }
  return names;
}

// Of one graph or function body, or of a graph inside a node of it.
class Former {
 public:
  Former(const graph::Graph& graph, const graph::NodeEdit& place, const OpRegistry& registry,
         InferenceForm& result)
      : graph_(graph),
        place_(place),
        registry_(registry),
        read_inside_(read_inside(graph)),
        result_(result) {}

  void run() {
    for (const Node& node : graph_.nodes()) {
      const std::string domain = node.domain == "ai.onnx" ? "" : node.domain;
      const OpDef* op = registry_.find(domain, node.op);
      if (op != nullptr && op->inference_form) form(node, *op, domain);
    }
    for (const Value* value : dropped_) {
      if (is_read(*value)) continue;
      if (value->producer != nullptr) {
        drop_constant(*value->producer);
      } else if (value->origin.kind == graph::Origin::Kind::kInitializer && is_main()) {
        result_.unread_initializers.push_back(value->name);
      }
    }
  }

 private:
  void form(const Node& node, const OpDef& op, const std::string& domain) {
    const auto opset = graph_.opsets.find(domain);
    InferenceFormContext context(node, opset == graph_.opsets.end() ? 1 : opset->second);
    op.inference_form(context);
    graph::NodeEdit edit = context.edit();
    if (edit.keep_inputs >= node.num_inputs()) edit.keep_inputs = -1;
    if (edit.keep_outputs >= node.num_outputs()) edit.keep_outputs = -1;
    if (edit.ints.empty() && edit.keep_inputs < 0 && edit.keep_outputs < 0) return;
    if (const Value* needed = needed_behind(node, edit.keep_outputs)) {
      result_.notices.push_back(fmt::format(
          "node {} is saved in training form, because its output '{}' is read; what it computes "
          "depends on the batch",
          node.label(), needed->name));
      return;
    }
    edit.function = place_.function;
    edit.path = place_.path;
    edit.node = node.origin.node;
    for (int i = std::max(edit.keep_inputs, 0); edit.keep_inputs >= 0 && i < node.num_inputs();
         ++i) {
      if (node.input(i) == nullptr) continue;
      dropped_uses_.insert({&node, i});
      const Value* value = node.input(i);
      if (std::ranges::find(dropped_, value) == dropped_.end()) dropped_.push_back(value);
    }
    result_.edits.push_back(std::move(edit));
  }

  bool is_main() const { return place_.function < 0 && place_.path.empty(); }

  bool is_read(const Value& value) const {
    return graph_.is_output(&value) || read_inside_.contains(value.name) ||
           std::ranges::any_of(value.uses(), [&](const graph::Use& use) {
             return !dropped_uses_.contains({use.node, use.index});
           });
  }

  void drop_constant(const Node& node) {
    const OpDef* op = OpRegistry::get().find(node.domain == "ai.onnx" ? "" : node.domain, node.op);
    if (op == nullptr || !op->literal || node.num_outputs() != 1) return;
    graph::NodeEdit edit = place_;
    edit.node = node.origin.node;
    edit.remove = true;
    result_.edits.push_back(std::move(edit));
  }

  // An output from slot `keep` on that anything reads.
  const Value* needed_behind(const Node& node, int keep) const {
    for (int i = std::max(keep, 0); keep >= 0 && i < node.num_outputs(); ++i) {
      const Value* value = node.output(i);
      if (value == nullptr) continue;
      if (is_read(*value)) return value;
    }
    return nullptr;
  }

  const graph::Graph& graph_;
  const graph::NodeEdit place_;  // its node: none
  const OpRegistry& registry_;
  const std::set<std::string> read_inside_;
  std::set<std::pair<const Node*, int32_t>> dropped_uses_;
  std::vector<const Value*> dropped_;  // what they read
  InferenceForm& result_;
};

class FormerOfModel {
 public:
  FormerOfModel(const graph::ImportedModel& model, const OpRegistry& registry,
                InferenceForm& result)
      : model_(model), registry_(registry), result_(result) {}

  void visit(const graph::Graph& graph, const graph::NodeEdit& place) {
    Former(graph, place, registry_, result_).run();
    for (const auto& [node, label] : graph::call_labels(graph, model_.functions)) {
      for (const auto& [attribute, inner] : graph::subgraphs_of(*node)) {
        graph::NodeEdit inside = place;
        inside.path += (place.path.empty() ? "" : "/") + label + "/" + attribute;
        visit_inside(*inner, graph, inside);
      }
    }
  }

 private:
  void visit_inside(const graph::GraphAttribute& attribute, const graph::Graph& around,
                    const graph::NodeEdit& place) {
    std::map<std::string, int64_t> opsets = around.opsets;
    for (const graph::Function& function : model_.functions) opsets.emplace(function.domain, 1);
    std::unique_ptr<graph::Graph> body;
    try {
      body = graph::import_subgraph(attribute, opsets);
    } catch (const Error&) {
      // Training refuses to go through it; what isn't trained stays as it is.
      return;
    }
    visit(*body, place);
  }

  const graph::ImportedModel& model_;
  const OpRegistry& registry_;
  InferenceForm& result_;
};

}  // namespace

bool InferenceFormContext::attribute_is(std::string_view name, int64_t value,
                                        int64_t fallback) const {
  const auto found = node_.attributes.find(name);
  if (found != node_.attributes.end() &&
      std::holds_alternative<graph::AttributeReference>(found->second)) {
    return false;
  }
  return node_.get_int(name, fallback) == value;
}

Tensor InferenceFormContext::constant(int input) const {
  const Value* value = node_.input(input);
  if (value == nullptr) return {};
  if (value->is_constant()) return value->data;
  const OpDef* op = value->producer == nullptr ? nullptr : OpRegistry::get().find(*value->producer);
  return op != nullptr && op->literal ? op->literal(*value->producer) : Tensor();
}

InferenceForm inference_form(const graph::ImportedModel& model, const OpRegistry& registry) {
  InferenceForm result;
  FormerOfModel former(model, registry, result);
  former.visit(*model.graph, {});
  for (size_t i = 0; i < model.functions.size(); ++i) {
    graph::NodeEdit place;
    place.function = static_cast<int32_t>(i);
    former.visit(*model.functions[i].body, place);
  }
  return result;
}

}  // namespace sardonyx::ops
