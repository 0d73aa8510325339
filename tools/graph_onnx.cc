#include "tools/graph_onnx.h"

#include <fmt/format.h>

#include <onnx/onnx_pb.h>
#include <algorithm>
#include <map>
#include <unordered_map>

#include "graph/onnx_write.h"
#include "graph/print.h"
#include "ops/core/op.h"
#include "ops/registry.h"
#include "passes/phases.h"

namespace sardonyx::tools {

namespace {

using graph::Node;
using graph::OnnxForm;
using graph::Value;

std::map<std::string, int64_t> newest_forms(const graph::Graph& graph) {
  std::map<std::string, int64_t> opsets = graph.opsets;
  for (const Node& node : graph.nodes()) {
    const ops::OpDef* op = ops::OpRegistry::get().find(node);
    const int64_t since = op == nullptr || op->since.empty() ? 1 : op->since.back();
    opsets[node.domain] = std::max(opsets[node.domain], since);
  }
  opsets[ops::kDomain] = 1;
  return opsets;
}

// Attributes of a standard operator that only Sardonyx knows.
std::vector<std::string> private_attributes(const Node& node) {
  std::vector<std::string> names;
  const ops::OpDef* op = ops::OpRegistry::get().find(node);
  if (op == nullptr || node.domain == ops::kDomain) return names;
  for (const ops::AttributeDef& attribute : op->attributes) {
    if (attribute.writer == ops::Writer::kRules && node.has(attribute.name)) {
      names.push_back(attribute.name);
    }
  }
  return names;
}

// "needed" says what may be skipped; any other private attribute changes what the node computes.
bool only_a_hint(const Node& node, const std::vector<std::string>& names) {
  const ops::OpDef* op = ops::OpRegistry::get().find(node);
  return names.empty() || (op->skips_unneeded && names == std::vector<std::string>{"needed"});
}

std::string name_of(const Node& node) {
  if (!node.name.empty()) return node.name;
  for (const Value* output : node.outputs()) {
    if (output != nullptr) return output->name;
  }
  return "";
}

std::string about(const Node& node, passes::Phase phase) {
  std::string text = fmt::format("phase: {}", passes::phase_name(phase));
  if (!node.forward_node.empty()) text += "\ngradient of: " + node.forward_node;
  for (const Value* output : node.outputs()) {
    if (output == nullptr || output->type.layout.plain()) continue;
    text += fmt::format("\nlayout of {}: {}", output->name, output->type.layout.str().substr(1));
  }
  return text;
}

// A node of a standard operator stands for exactly what the standard says: where a private
// attribute changes that, it is written as one of Sardonyx's own.
graph::NodeForm form_of(const Node& node, passes::Phase phase) {
  graph::NodeForm form{node.domain, name_of(node), about(node, phase), {}};
  const std::vector<std::string> names = private_attributes(node);
  if (!only_a_hint(node, names)) {
    form.domain = ops::kDomain;
    form.doc += "\nstandard operator with a private attribute";
    return form;
  }
  for (const std::string& name : names) {
    form.doc += fmt::format("\n{}: {}", name, graph::print(node.attributes.at(name)));
  }
  form.left_out = names;
  return form;
}

std::string file_name(const graph::Model& model) { return model.path().filename().string(); }

std::string role(const graph::Graph& graph, const Value& value) {
  if (!value.is_state()) return "";
  std::string text = fmt::format("state: {}", graph::role_name(value.role));
  if (const Value* next = graph.bound(&value)) text += "\nafter the step: " + next->name;
  return text;
}

}  // namespace

DataFiles write_training_graph(const graph::Model& model, const passes::Plan& plan,
                               const std::filesystem::path& path) {
  const graph::Graph& graph = *plan.graph;
  std::unordered_map<const Node*, passes::Phase> phase_of;
  const std::vector<passes::Phase> phases = passes::phases(graph);
  size_t position = 0;
  for (const Node& node : graph.nodes()) phase_of[&node] = phases[position++];
  OnnxForm form;
  form.opsets = newest_forms(graph);
  form.doc = fmt::format(
      "Training graph of {} for {} rows, written by sardonyx inspect to be looked at: forward and "
      "backward pass, loss and update. Not a trained model, and nothing runs it.",
      file_name(model), plan.batch);
  form.metadata = {{graph::kTrainingGraphOf, file_name(model)},
                   {"sardonyx.batch", std::to_string(plan.batch)}};
  form.node = [&](const Node& node) { return form_of(node, phase_of.at(&node)); };
  form.remark = [&](const Value& value) { return role(graph, value); };
  return graph::write_onnx(graph, path, form);
}

DataFiles write_imported(const graph::Model& model, const graph::ImportedModel& imported,
                         const std::filesystem::path& path) {
  const onnx::ModelProto& proto = model.skeleton();
  OnnxForm form;
  form.functions = &imported.functions;
  form.doc = proto.doc_string();
  for (const auto& entry : proto.metadata_props()) {
    form.metadata.emplace_back(entry.key(), entry.value());
  }
  form.types_of = &model;
  return graph::write_onnx(*imported.graph, path, form);
}

}  // namespace sardonyx::tools
