#include "graph/onnx_write.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <memory>

#include "graph/onnx_export.h"
#include "graph/onnx_proto.h"
#include "graph/support/atomic_file.h"
#include "graph/support/error.h"
#include "graph/support/text.h"
#include "graph/wire.h"

namespace sardonyx::graph {
namespace {

namespace fs = std::filesystem;
using support::AtomicFile;
using support::in_quotes;

constexpr size_t kSmall = 1024;      // bytes of an initializer that stays in the file in any case
constexpr size_t kAlignment = 4096;  // of values in a data file, so that they can be mapped

// A bound batch is a number here.
void set_type(const TensorType& type, onnx::TypeProto& proto) {
  auto* tensor = proto.mutable_tensor_type();
  tensor->set_elem_type(static_cast<int32_t>(type.dtype));
  if (!type.ranked) return;
  auto* shape = tensor->mutable_shape();
  for (const Dim& d : type.dims) {
    auto* dim = shape->add_dim();
    if (d.known()) {
      dim->set_dim_value(d.value);
    } else if (!d.symbol.empty()) {
      dim->set_dim_param(d.symbol);
    }
  }
}

void set_info(const Value& value, onnx::ValueInfoProto& info) {
  info.set_name(value.name);
  if (value.type.dtype != DType::kUndefined) set_type(value.type, *info.mutable_type());
}

// Without its bytes.
void describe_tensor(const std::string& name, DType dtype, const std::vector<int64_t>& shape,
                     onnx::TensorProto& tensor) {
  tensor.set_name(name);
  tensor.set_data_type(static_cast<int32_t>(dtype));
  for (int64_t d : shape) tensor.add_dims(d);
}

void add_attribute(const std::string& name, const Attribute& attribute,
                   onnx::AttributeProto& proto) {
  proto.set_name(name);
  export_attribute(attribute, proto);
}

// What protobuf files newer than our onnx.proto say.
template <class Proto>
void add_new_field(Proto& proto, uint32_t number, const std::string& bytes) {
  proto.GetReflection()->MutableUnknownFields(&proto)->AddLengthDelimited(static_cast<int>(number),
                                                                          bytes);
}

class Writer {
 public:
  Writer(const Graph& graph, const OnnxForm& form) : graph_(graph), form_(form) {}

  // Everything but the values of initializers.
  onnx::ModelProto& describe() {
    model_.set_ir_version(ir_version());
    model_.set_producer_name("sardonyx");
    if (!form_.doc.empty()) model_.set_doc_string(form_.doc);
    std::map<std::string, int64_t> opsets = graph_.opsets;
    for (const auto& [domain, version] : form_.opsets) opsets[domain] = version;
    for (const auto& [domain, version] : opsets) {
      auto* import = model_.add_opset_import();
      import->set_domain(domain);
      import->set_version(version);
    }
    for (const auto& [key, value] : form_.metadata) {
      auto* entry = model_.add_metadata_props();
      entry->set_key(key);
      entry->set_value(value);
    }
    add_graph(*model_.mutable_graph());
    add_bindings();
    if (form_.functions != nullptr) {
      for (const Function& function : *form_.functions) add_function(function);
    }
    return model_;
  }

  // To be given their values.
  struct Initializer {
    onnx::TensorProto* proto;
    const Value* value;
    size_t bytes;
  };
  const std::vector<Initializer>& initializers() const { return initializers_; }

 private:
  int64_t ir_version() const {
    constexpr int64_t kFirst = 8, kOverloads = 10;  // functions of a model came with 8
    const bool overloads =
        form_.functions != nullptr && std::ranges::any_of(*form_.functions, [](const Function& f) {
          return !f.overload.empty();
        });
    return std::max({graph_.ir_version, kFirst, overloads ? kOverloads : 0});
  }

  void add_graph(onnx::GraphProto& proto) {
    proto.set_name(graph_.name.empty() ? "graph" : graph_.name);
    for (const Value* input : graph_.inputs()) set_info(*input, *proto.add_input());
    for (const Value* output : graph_.outputs()) add_output(*output, *proto.add_output());
    for (const Value& value : graph_.values()) {
      if (value.is_constant() || value.is_state()) {
        add_initializer(value, *proto.add_initializer());
      } else if (value.kind == ValueKind::kResult && value.type.dtype != DType::kUndefined) {
        add_result(value, proto);
      }
    }
    for (const Node& node : graph_.nodes()) add_node(node, *proto.add_node());
  }

  void add_output(const Value& value, onnx::ValueInfoProto& info) {
    set_info(value, info);
    if (info.has_type() || form_.types_of == nullptr) return;
    for (const onnx::ValueInfoProto& output : form_.types_of->skeleton().graph().output()) {
      if (output.name() == value.name) *info.mutable_type() = output.type();
    }
  }

  void add_result(const Value& value, onnx::GraphProto& proto) {
    const auto& outputs = graph_.outputs();
    if (std::ranges::find(outputs, &value) != outputs.end()) return;
    onnx::ValueInfoProto& info = *proto.add_value_info();
    set_info(value, info);
    if (form_.remark) info.set_doc_string(form_.remark(value));
  }

  void add_initializer(const Value& value, onnx::TensorProto& proto) {
    if (form_.remark) proto.set_doc_string(form_.remark(value));
    if (value.data.defined() && value.data.dtype() == DType::kString) {
      return export_tensor(value.name, value.data, proto);
    }
    const bool given = value.data.defined();
    describe_tensor(value.name, given ? value.data.dtype() : value.type.dtype,
                    given ? value.data.shape() : value.type.shape(), proto);
    TensorType stored = value.type;
    stored.layout = {};
    const size_t bytes = given ? value.data.bytes().size() : stored.bytes();
    initializers_.push_back({&proto, &value, bytes});
  }

  void add_bindings() {
    if (graph_.bindings().empty()) return;
    onnx::TrainingInfoProto& training = *model_.add_training_info();
    const auto& outputs = graph_.outputs();
    for (const Binding& binding : graph_.bindings()) {
      auto* entry = training.add_update_binding();
      entry->set_key(binding.state->name);
      entry->set_value(binding.next->name);
      if (std::ranges::find(outputs, binding.next) == outputs.end()) {
        set_info(*binding.next, *model_.mutable_graph()->add_output());
      }
    }
  }

  // "NAME:OVERLOAD" of a call are two fields in the file.
  std::string overload_of(const Node& node) const {
    if (form_.functions == nullptr) return "";
    for (const Function& function : *form_.functions) {
      if (function.name == node.op && function.domain == node.domain) return function.overload;
    }
    return "";
  }

  void add_node(const Node& node, onnx::NodeProto& proto) {
    const NodeForm form = form_.node ? form_.node(node) : NodeForm{node.domain, node.name, "", {}};
    const std::string overload = overload_of(node);
    const size_t cut = overload.empty() ? 0 : overload.size() + 1;
    proto.set_op_type(node.op.substr(0, node.op.size() - cut));
    if (!overload.empty()) add_new_field(proto, wire::field::kNodeOverload, overload);
    proto.set_domain(form.domain);
    if (!form.name.empty()) proto.set_name(form.name);
    if (!form.doc.empty()) proto.set_doc_string(form.doc);
    for (const Value* input : node.inputs()) proto.add_input(input == nullptr ? "" : input->name);
    for (const Value* output : node.outputs())
      proto.add_output(output == nullptr ? "" : output->name);
    for (const auto& [name, attribute] : node.attributes) {
      if (std::ranges::find(form.left_out, name) != form.left_out.end()) continue;
      add_attribute(name, attribute, *proto.add_attribute());
    }
  }

  void add_function(const Function& function) {
    onnx::FunctionProto& proto = *model_.add_functions();
    proto.set_domain(function.domain);
    const size_t cut = function.overload.empty() ? 0 : function.overload.size() + 1;
    proto.set_name(function.name.substr(0, function.name.size() - cut));
    if (!function.overload.empty()) {
      add_new_field(proto, wire::field::kFunctionOverload, function.overload);
    }
    for (const std::string& name : function.inputs) proto.add_input(name);
    for (const std::string& name : function.outputs) proto.add_output(name);
    for (const std::string& name : function.attributes) proto.add_attribute(name);
    for (const auto& [name, value] : function.attribute_defaults) {
      onnx::AttributeProto attribute;
      add_attribute(name, value, attribute);
      add_new_field(proto, wire::field::kFunctionAttributeProto, attribute.SerializeAsString());
    }
    for (const auto& [domain, version] : function.opsets) {
      auto* import = proto.add_opset_import();
      import->set_domain(domain);
      import->set_version(version);
    }
    for (const Node& node : function.body->nodes()) add_node(node, *proto.add_node());
  }

  const Graph& graph_;
  const OnnxForm& form_;
  onnx::ModelProto model_;
  std::vector<Initializer> initializers_;
};

std::string serialized(const onnx::ModelProto& model, const std::string& name) {
  std::string bytes;
  if (!model.SerializeToString(&bytes)) {
    throw Error("graph {} is too large for an ONNX file (2 GiB)", in_quotes(name));
  }
  return bytes;
}

void put_inside(const Writer::Initializer& initializer) {
  const Tensor& data = initializer.value->data;
  if (data.defined()) {
    initializer.proto->set_raw_data(data.bytes().data(), data.bytes().size());
  } else {
    initializer.proto->set_raw_data(std::string(initializer.bytes, '\0'));
  }
}

// A file of values, laid out one behind the other.
class DataFile {
 public:
  explicit DataFile(std::string name) : name_(std::move(name)), zeros_(size_t{1} << 20, '\0') {}

  void put(const Writer::Initializer& initializer) {
    add_zeros((kAlignment - size_ % kAlignment) % kAlignment);
    onnx::TensorProto& proto = *initializer.proto;
    proto.set_data_location(onnx::TensorProto::EXTERNAL);
    entry(proto, "location", name_);
    entry(proto, "offset", std::to_string(size_));
    entry(proto, "length", std::to_string(initializer.bytes));
    const Tensor& data = initializer.value->data;
    if (!data.defined()) return add_zeros(initializer.bytes);
    pieces_.emplace_back(reinterpret_cast<const char*>(data.bytes().data()), data.bytes().size());
    size_ += data.bytes().size();
  }
  const std::vector<std::string_view>& pieces() const { return pieces_; }

 private:
  static void entry(onnx::TensorProto& proto, const char* key, const std::string& value) {
    auto* data = proto.add_external_data();
    data->set_key(key);
    data->set_value(value);
  }
  void add_zeros(size_t bytes) {
    for (size_t left = bytes; left > 0;) {
      const size_t part = std::min(left, zeros_.size());
      pieces_.push_back(std::string_view(zeros_).substr(0, part));
      left -= part;
    }
    size_ += bytes;
  }

  std::string name_, zeros_;
  std::vector<std::string_view> pieces_;
  size_t size_ = 0;
};

}  // namespace

fs::path data_file_of(const fs::path& path) { return path.string() + ".data"; }

std::vector<fs::path> write_onnx(const Graph& graph, const fs::path& path, const OnnxForm& form) {
  Writer writer(graph, form);
  onnx::ModelProto& model = writer.describe();
  size_t size = model.ByteSizeLong();
  for (const auto& initializer : writer.initializers()) size += initializer.bytes;
  const fs::path beside = data_file_of(path);
  DataFile data(beside.filename().string());
  for (const auto& initializer : writer.initializers()) {
    if (size <= form.inline_limit || initializer.bytes < kSmall) {
      put_inside(initializer);
    } else {
      data.put(initializer);
    }
  }
  const std::string bytes = serialized(model, graph.name);
  if (data.pieces().empty()) {
    write_file_atomically(path, bytes);
    return {};
  }
  const std::string_view content = bytes;
  AtomicFile values(beside, data.pieces());
  AtomicFile file(path, {&content, 1});
  values.commit();  // first: the model refers to it
  file.commit();
  return {beside};
}

std::string to_onnx_bytes(const Graph& graph) {
  CHECK(graph.bindings().empty(), "a training graph cannot be written as a model");
  const OnnxForm plain;
  Writer writer(graph, plain);
  const onnx::ModelProto& model = writer.describe();
  for (const auto& initializer : writer.initializers()) put_inside(initializer);
  return serialized(model, graph.name);
}

void write_onnx(const Graph& graph, const fs::path& path) {
  write_file_atomically(path, to_onnx_bytes(graph));
}

}  // namespace sardonyx::graph
