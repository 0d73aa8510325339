// Small readers of onnx.proto messages that importer and saver share. Internal to graph/: it shows
// protobuf types by forward declaration only.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/attribute.h"
#include "graph/model.h"
#include "graph/type.h"

namespace onnx {
class AttributeProto;
class FunctionProto;
class GraphProto;
class NodeProto;
class TensorProto;
class TypeProto;
}  // namespace onnx

namespace sardonyx::graph {

// "" for both spellings of the main domain.
std::string normal_domain(const std::string& domain);
// `conv1 (Conv)`, or `Conv -> y` for a nameless node; escaped for messages.
std::string node_label(const onnx::NodeProto& node);
// Name of the function that the node would call: operator, and ":" + overload if it has one.
std::string callee_name(const onnx::NodeProto& node);
std::string function_name(const onnx::FunctionProto& function);

// Names that the graph (with the graphs inside it) reads and doesn't define, in order of their
// first use.
std::vector<std::string> outer_values(const onnx::GraphProto& graph);

// Throws Error when kind and value disagree, or the kind is none that an Attribute can hold.
Attribute import_attribute(const Model& model, const onnx::AttributeProto& attribute);
// Kind and value; the name stays. Throws Error on a graph that can't be parsed.
void export_attribute(const Attribute& attribute, onnx::AttributeProto& proto);
void export_tensor(const std::string& name, const Tensor& value, onnx::TensorProto& tensor);

// A tensor type; nothing for sequences, maps, optionals, sparse tensors and element types that a
// graph cannot hold; `problem` then says which.
std::optional<TensorType> import_type(const onnx::TypeProto& type, std::string& problem);

// What protobuf files newer than our onnx.proto add to a function: attributes with defaults,
// overload.
std::vector<onnx::AttributeProto> function_defaults(const onnx::FunctionProto& function);
std::string function_overload(const onnx::FunctionProto& function);

}  // namespace sardonyx::graph
