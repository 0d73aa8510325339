#include "graph/onnx_export.h"

#include <onnx/onnx_pb.h>

#include <memory>
#include <system_error>

#include "graph/external_files.h"
#include "graph/onnx_proto.h"
#include "graph/save_plan.h"
#include "graph/support/atomic_file.h"
#include "graph/support/error.h"
#include "graph/support/text.h"

namespace sardonyx::graph {
namespace {

namespace fs = std::filesystem;
using support::AtomicFile;
using support::in_quotes;

bool is_model_itself(const Model& model, const fs::path& path) {
  std::error_code ignored;
  return !model.path().empty() && fs::equivalent(model.path(), path, ignored);
}

void set_type(const TensorType& type, onnx::TypeProto& proto) {
  auto* tensor = proto.mutable_tensor_type();
  tensor->set_elem_type(static_cast<int32_t>(type.dtype));
  if (!type.ranked) return;
  auto* shape = tensor->mutable_shape();
  for (const Dim& d : type.dims) {
    auto* dim = shape->add_dim();
    if (!d.symbol.empty()) {
      dim->set_dim_param(d.symbol);
    } else if (d.known()) {
      dim->set_dim_value(d.value);
    }
  }
}

void set_info(const Value& value, onnx::ValueInfoProto& info) {
  info.set_name(value.name);
  if (value.type.dtype != DType::kUndefined) set_type(value.type, *info.mutable_type());
}

void set_node(const Node& node, onnx::NodeProto& proto) {
  proto.set_op_type(node.op);
  proto.set_domain(node.domain);
  if (!node.name.empty()) proto.set_name(node.name);
  for (const Value* input : node.inputs()) proto.add_input(input == nullptr ? "" : input->name);
  for (const Value* output : node.outputs())
    proto.add_output(output == nullptr ? "" : output->name);
  for (const auto& [name, attribute] : node.attributes) {
    onnx::AttributeProto* entry = proto.add_attribute();
    entry->set_name(name);
    export_attribute(attribute, *entry);
  }
}

}  // namespace

void save_model(const Model& model, const std::vector<NewValue>& values, const fs::path& path,
                const SaveOptions& options) {
  const bool itself = is_model_itself(model, path);
  if (itself && !options.overwrite_input) {
    throw Error("{}: is the model that was read; save under another name, or ask to overwrite it",
                support::escaped(path.string()));
  }
  ExternalFiles external(model);
  SavePlan plan(model, external);
  for (const NewValue& value : values) plan.add(value);
  for (const NodeEdit& change : options.node_edits) plan.add(change);
  for (const std::string& name : options.dropped_initializers) plan.drop_initializer(name);
  FileEdit& edit = plan.finish();
  const auto originals =
      itself ? ExternalFiles::Originals::kOverwrite : ExternalFiles::Originals::kKeep;
  // Everything is on the disk before the first rename, and the model, which refers to the rest,
  // comes last.
  auto files = external.write(path, originals, edit);
  const wire::Rope content = edit.apply(wire::Message::kModel, {0, model.bytes().size()});
  if (options.data_files != nullptr) {
    for (const auto& data : files) options.data_files->push_back(data->target());
  }
  files.push_back(std::make_unique<AtomicFile>(path, content.pieces()));
  AtomicFile::commit_all(files);
  if (options.notices == nullptr) return;
  options.notices->insert(options.notices->end(), plan.notices().begin(), plan.notices().end());
  if (content.size() <= options.protobuf_limit) return;
  options.notices->push_back(fmt::format(
      "{} has {} bytes: most programs read at most {} (protobuf's limit) and will refuse "
      "it; export the model with its weights in a file of their own (external data)",
      support::escaped(path.string()), content.size(), options.protobuf_limit));
}

std::string to_onnx_bytes(const Graph& graph) {
  CHECK(graph.bindings().empty(), "a training graph cannot be written as a model");
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.set_producer_name("sardonyx");
  for (const auto& [domain, version] : graph.opsets) {
    auto* import = model.add_opset_import();
    import->set_domain(domain);
    import->set_version(version);
  }
  onnx::GraphProto& proto = *model.mutable_graph();
  proto.set_name(graph.name);
  for (const Value* input : graph.inputs()) set_info(*input, *proto.add_input());
  for (const Value* output : graph.outputs()) set_info(*output, *proto.add_output());
  for (const Value& value : graph.values()) {
    if (!value.is_constant() && !value.is_state()) continue;
    const Tensor data =
        value.data.defined() ? value.data : Tensor(value.type.dtype, value.type.shape());
    export_tensor(value.name, data, *proto.add_initializer());
  }
  for (const Node& node : graph.nodes()) set_node(node, *proto.add_node());
  std::string bytes;
  if (!model.SerializeToString(&bytes)) {
    throw Error("graph {} is too large for an ONNX file (2 GiB)", in_quotes(graph.name));
  }
  return bytes;
}

void write_onnx(const Graph& graph, const fs::path& path) {
  write_file_atomically(path, to_onnx_bytes(graph));
}

void write_file_atomically(const fs::path& path, std::string_view bytes) {
  AtomicFile(path, {&bytes, 1}).commit();
}

}  // namespace sardonyx::graph
