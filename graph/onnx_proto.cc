#include "graph/onnx_proto.h"

#include <onnx/onnx_pb.h>

#include <cctype>
#include <string_view>
#include <unordered_set>

#include "graph/skeleton.h"
#include "graph/support/error.h"
#include "graph/support/text.h"

namespace sardonyx::graph {
namespace {

using onnx::AttributeProto;
using support::escaped;
using support::in_quotes;

std::string unknown_text(const google::protobuf::UnknownFieldSet& unknown, uint32_t number) {
  for (int i = 0; i < unknown.field_count(); ++i) {
    const auto& field = unknown.field(i);
    if (field.number() == static_cast<int>(number) &&
        field.type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED) {
      return field.length_delimited();
    }
  }
  return "";
}

class OuterValues {
 public:
  std::vector<std::string> take() { return std::move(found_); }

  void visit(const onnx::GraphProto& graph) {
    std::unordered_set<std::string_view> defined;
    for (const auto& input : graph.input()) defined.insert(input.name());
    for (const auto& tensor : graph.initializer()) defined.insert(tensor.name());
    for (const auto& tensor : graph.sparse_initializer()) defined.insert(tensor.values().name());
    for (const auto& node : graph.node())
      defined.insert(node.output().begin(), node.output().end());
    scopes_.push_back(std::move(defined));
    for (const auto& node : graph.node()) {
      for (const std::string& name : node.input()) read(name);
      for (const AttributeProto& attribute : node.attribute()) {
        if (attribute.has_g()) visit(attribute.g());
        for (const auto& body : attribute.graphs()) visit(body);
      }
    }
    for (const auto& output : graph.output()) read(output.name());
    scopes_.pop_back();
  }

 private:
  void read(const std::string& name) {
    if (name.empty() || seen_.contains(name)) return;
    for (const auto& scope : scopes_) {
      if (scope.contains(name)) return;
    }
    seen_.insert(name);
    found_.push_back(name);
  }

  std::vector<std::unordered_set<std::string_view>> scopes_;
  std::unordered_set<std::string> seen_;
  std::vector<std::string> found_;
};

// The kinds whose fields hold a value.
std::vector<AttributeProto::AttributeType> kinds_present(const AttributeProto& a) {
  std::vector<AttributeProto::AttributeType> kinds;
  const auto note = [&](bool present, AttributeProto::AttributeType kind) {
    if (present) kinds.push_back(kind);
  };
  note(a.has_f(), AttributeProto::FLOAT);
  note(a.has_i(), AttributeProto::INT);
  note(a.has_s(), AttributeProto::STRING);
  note(a.has_t(), AttributeProto::TENSOR);
  note(a.has_g(), AttributeProto::GRAPH);
  note(a.has_sparse_tensor(), AttributeProto::SPARSE_TENSOR);
  note(a.has_tp(), AttributeProto::TYPE_PROTO);
  note(a.floats_size() > 0, AttributeProto::FLOATS);
  note(a.ints_size() > 0, AttributeProto::INTS);
  note(a.strings_size() > 0, AttributeProto::STRINGS);
  note(a.tensors_size() > 0, AttributeProto::TENSORS);
  note(a.graphs_size() > 0, AttributeProto::GRAPHS);
  note(a.sparse_tensors_size() > 0, AttributeProto::SPARSE_TENSORS);
  note(a.type_protos_size() > 0, AttributeProto::TYPE_PROTOS);
  return kinds;
}

std::string kind_name(AttributeProto::AttributeType kind) {
  std::string name = AttributeProto::AttributeType_Name(kind);
  for (char& c : name) c = c == '_' ? ' ' : static_cast<char>(std::tolower(c));
  return name;
}

AttributeProto::AttributeType checked_kind(const AttributeProto& attribute) {
  const auto present = kinds_present(attribute);
  const AttributeProto::AttributeType declared = attribute.type();
  if (declared == AttributeProto::UNDEFINED) {
    if (present.size() != 1) {
      throw Error("attribute {}: has no kind and {} values, expected one",
                  in_quotes(attribute.name()), present.size());
    }
    return present.front();
  }
  for (const auto kind : present) {
    if (kind != declared) {
      throw Error("attribute {}: is declared as {} but holds a value of kind {}",
                  in_quotes(attribute.name()), kind_name(declared), kind_name(kind));
    }
  }
  const bool needs_value = declared == AttributeProto::TENSOR || declared == AttributeProto::GRAPH;
  if (needs_value && present.empty()) {
    throw Error("attribute {}: is declared as {} but holds none", in_quotes(attribute.name()),
                kind_name(declared));
  }
  return declared;
}

GraphAttribute import_graph(const Model& model, const onnx::GraphProto& graph) {
  GraphAttribute result;
  result.outer_values = outer_values(graph);
  if (const auto place = place_of(graph)) {
    const auto bytes = model.bytes().subspan(place->begin, place->size());
    result.serialized.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  } else {
    result.serialized = graph.SerializeAsString();
  }
  return result;
}

Dim import_dim(const onnx::TensorShapeProto::Dimension& dim) {
  if (dim.has_dim_param() && !dim.dim_param().empty()) return Dim::named(dim.dim_param());
  // Some exporters write -1 for "not known".
  if (dim.has_dim_value() && dim.dim_value() >= 0) return Dim(dim.dim_value());
  return Dim();
}

struct AttributeWriter {
  onnx::AttributeProto& proto;
  using A = onnx::AttributeProto;

  void operator()(int64_t value) { proto.set_type(A::INT), proto.set_i(value); }
  void operator()(double value) {
    proto.set_type(A::FLOAT), proto.set_f(static_cast<float>(value));
  }
  void operator()(const std::string& value) { proto.set_type(A::STRING), proto.set_s(value); }
  void operator()(const std::vector<int64_t>& values) {
    proto.set_type(A::INTS);
    for (int64_t value : values) proto.add_ints(value);
  }
  void operator()(const std::vector<double>& values) {
    proto.set_type(A::FLOATS);
    for (double value : values) proto.add_floats(static_cast<float>(value));
  }
  void operator()(const std::vector<std::string>& values) {
    proto.set_type(A::STRINGS);
    for (const std::string& value : values) proto.add_strings(value);
  }
  void operator()(const Tensor& value) {
    proto.set_type(A::TENSOR);
    export_tensor("", value, *proto.mutable_t());
  }
  void operator()(const GraphAttribute& value) {
    proto.set_type(A::GRAPH);
    if (!proto.mutable_g()->ParseFromString(value.serialized)) {
      throw Error("attribute {}: its graph is corrupt", in_quotes(proto.name()));
    }
  }
  void operator()(const AttributeReference& value) { proto.set_ref_attr_name(value.name); }
};

}  // namespace

std::string normal_domain(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

std::string node_label(const onnx::NodeProto& node) {
  if (!node.name().empty()) {
    return fmt::format("{} ({})", escaped(node.name()), escaped(node.op_type()));
  }
  for (const std::string& output : node.output()) {
    if (!output.empty()) return fmt::format("{} -> {}", escaped(node.op_type()), escaped(output));
  }
  return escaped(node.op_type());
}

std::string callee_name(const onnx::NodeProto& node) {
  const std::string overload = unknown_text(node.unknown_fields(), wire::field::kNodeOverload);
  return overload.empty() ? node.op_type() : node.op_type() + ":" + overload;
}

std::string function_name(const onnx::FunctionProto& function) {
  const std::string overload = function_overload(function);
  return overload.empty() ? function.name() : function.name() + ":" + overload;
}

std::vector<std::string> outer_values(const onnx::GraphProto& graph) {
  OuterValues visitor;
  visitor.visit(graph);
  return visitor.take();
}

Attribute import_attribute(const Model& model, const AttributeProto& attribute) {
  if (!attribute.ref_attr_name().empty()) return AttributeReference{attribute.ref_attr_name()};
  const auto kind = checked_kind(attribute);
  switch (kind) {
    case AttributeProto::INT:
      return attribute.i();
    case AttributeProto::FLOAT:
      return static_cast<double>(attribute.f());
    case AttributeProto::STRING:
      return attribute.s();
    case AttributeProto::INTS:
      return std::vector<int64_t>(attribute.ints().begin(), attribute.ints().end());
    case AttributeProto::FLOATS:
      return std::vector<double>(attribute.floats().begin(), attribute.floats().end());
    case AttributeProto::STRINGS:
      return std::vector<std::string>(attribute.strings().begin(), attribute.strings().end());
    case AttributeProto::TENSOR:
      return model.payload(attribute.t());
    case AttributeProto::GRAPH:
      return import_graph(model, attribute.g());
    default:
      throw Error("attribute {}: holds a value of kind {}, which is not supported",
                  in_quotes(attribute.name()), kind_name(kind));
  }
}

void export_attribute(const Attribute& attribute, AttributeProto& proto) {
  std::visit(AttributeWriter{proto}, attribute);
}

void export_tensor(const std::string& name, const Tensor& value, onnx::TensorProto& tensor) {
  tensor.set_name(name);
  tensor.set_data_type(static_cast<int32_t>(value.dtype()));
  for (int64_t d : value.shape()) tensor.add_dims(d);
  if (value.dtype() == DType::kString) {
    for (const std::string& text : value.strings()) tensor.add_string_data(text);
  } else {
    tensor.set_raw_data(value.bytes().data(), value.bytes().size());
  }
}

std::optional<TensorType> import_type(const onnx::TypeProto& type, std::string& problem) {
  switch (type.value_case()) {
    case onnx::TypeProto::kTensorType:
      break;
    case onnx::TypeProto::kSequenceType:
      problem = "a sequence type";
      return std::nullopt;
    case onnx::TypeProto::kMapType:
      problem = "a map type";
      return std::nullopt;
    case onnx::TypeProto::kOptionalType:
      problem = "an optional type";
      return std::nullopt;
    case onnx::TypeProto::kSparseTensorType:
      problem = "a sparse tensor type";
      return std::nullopt;
    case onnx::TypeProto::kOpaqueType:
      problem = "an opaque type";
      return std::nullopt;
    case onnx::TypeProto::VALUE_NOT_SET:
      problem = "no type";
      return std::nullopt;
  }
  const auto& tensor = type.tensor_type();
  const int32_t element = tensor.elem_type();
  if (element < 1 || element > static_cast<int32_t>(DType::kBFloat16)) {
    problem = element == 0 ? std::string("no element type")
                           : fmt::format("the element type {}, which is not supported", element);
    return std::nullopt;
  }
  if (!tensor.has_shape()) return TensorType::unranked(static_cast<DType>(element));
  std::vector<Dim> dims;
  for (const auto& dim : tensor.shape().dim()) dims.push_back(import_dim(dim));
  return TensorType(static_cast<DType>(element), std::move(dims));
}

std::vector<AttributeProto> function_defaults(const onnx::FunctionProto& function) {
  std::vector<AttributeProto> defaults;
  const auto& unknown = function.unknown_fields();
  for (int i = 0; i < unknown.field_count(); ++i) {
    const auto& field = unknown.field(i);
    if (field.number() != static_cast<int>(wire::field::kFunctionAttributeProto) ||
        field.type() != google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED) {
      continue;
    }
    AttributeProto attribute;
    if (!attribute.ParseFromString(field.length_delimited())) {
      throw Error("function {}: a default of its attributes is corrupt",
                  in_quotes(function.name()));
    }
    defaults.push_back(std::move(attribute));
  }
  return defaults;
}

std::string function_overload(const onnx::FunctionProto& function) {
  return unknown_text(function.unknown_fields(), wire::field::kFunctionOverload);
}

}  // namespace sardonyx::graph
