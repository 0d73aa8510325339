#include "graph/subgraph.h"

#include <onnx/onnx_pb.h>

#include <utility>

#include "graph/model.h"
#include "graph/onnx_import.h"
#include "graph/onnx_proto.h"
#include "graph/support/error.h"
#include "graph/support/text.h"

namespace sardonyx::graph {
namespace {

using support::in_quotes;

onnx::GraphProto parsed(const GraphAttribute& attribute) {
  onnx::GraphProto graph;
  if (!graph.ParseFromString(attribute.serialized)) throw Error("the graph inside it is corrupt");
  return graph;
}

// The folder of the file isn't known here.
void require_inline(const onnx::TensorProto& tensor) {
  if (tensor.data_location() != onnx::TensorProto::EXTERNAL) return;
  throw Error(
      "tensor {} inside it is in an external file, which is supported in the main graph and in "
      "functions only; save the model with this tensor inside",
      in_quotes(tensor.name()));
}

void require_inline(const onnx::GraphProto& graph) {
  for (const auto& tensor : graph.initializer()) require_inline(tensor);
  for (const auto& node : graph.node()) {
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_t()) require_inline(attribute.t());
    }
  }
}

// Whether it changed anything.
bool bind(onnx::GraphProto& graph, const FindAttribute& find) {
  bool changed = false;
  for (auto& node : *graph.mutable_node()) {
    google::protobuf::RepeatedPtrField<onnx::AttributeProto> kept;
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) changed |= bind(*attribute.mutable_g(), find);
      if (attribute.ref_attr_name().empty()) {
        kept.Add()->Swap(&attribute);
        continue;
      }
      changed = true;
      const Attribute* value = find(attribute.ref_attr_name());
      if (value == nullptr) continue;
      kept.Add()->set_name(attribute.name());
      export_attribute(*value, *kept.rbegin());
    }
    node.mutable_attribute()->Swap(&kept);
  }
  return changed;
}

}  // namespace

std::unique_ptr<Graph> import_subgraph(const GraphAttribute& attribute,
                                       const std::map<std::string, int64_t>& opsets) {
  onnx::ModelProto model;
  model.set_ir_version(8);
  for (const auto& [domain, version] : opsets) {
    model.add_opset_import()->set_domain(domain);
    model.mutable_opset_import()->rbegin()->set_version(version);
  }
  onnx::GraphProto& graph = *model.mutable_graph();
  graph = parsed(attribute);
  require_inline(graph);
  if (graph.input_size() > 0) {
    throw Error("the graph inside it has {} inputs of its own, a branch has none",
                graph.input_size());
  }
  for (const std::string& name : attribute.outer_values) {
    onnx::ValueInfoProto& input = *graph.add_input();
    input.set_name(name);
    // The importer asks for a type of what is fed; it is forgotten below.
    input.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  }
  ImportedModel imported = import_model(Model::from_bytes(model.SerializeAsString()));
  for (Value* input : imported.graph->inputs()) {
    input->type = {};
    input->origin = {};
  }
  return std::move(imported.graph);
}

GraphAttribute bind_references(const GraphAttribute& attribute, const FindAttribute& find) {
  onnx::GraphProto graph = parsed(attribute);
  if (!bind(graph, find)) return attribute;
  return {graph.SerializeAsString(), attribute.outer_values};
}

std::map<std::string, const GraphAttribute*> subgraphs_of(const Node& node) {
  std::map<std::string, const GraphAttribute*> graphs;
  for (const auto& [name, attribute] : node.attributes) {
    if (const auto* graph = std::get_if<GraphAttribute>(&attribute)) graphs.emplace(name, graph);
  }
  return graphs;
}

}  // namespace sardonyx::graph
