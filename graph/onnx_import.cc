#include "graph/onnx_import.h"

#include <onnx/onnx_pb.h>

#include <set>
#include <unordered_map>
#include <utility>

#include "graph/body_import.h"
#include "graph/call_label.h"
#include "graph/faults.h"
#include "graph/function_calls.h"
#include "graph/onnx_proto.h"
#include "graph/subgraph.h"
#include "graph/support/error.h"
#include "graph/support/text.h"
#include "graph/tensor_message.h"

namespace sardonyx::graph {
namespace {

using support::escaped;
using support::in_quotes;
using OpsetImports = google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>;

constexpr int64_t kOldestIr = 3, kNewestIr = 14;
constexpr int64_t kOldestOpset = 1, kNewestOpset = 28;

// Who reads a value: a node, also in a graph inside another one; null: it is an output.
using Readers = std::unordered_map<std::string_view, const onnx::NodeProto*>;

void collect_readers(const onnx::GraphProto& graph, Readers& readers) {
  for (const auto& node : graph.node()) {
    for (const std::string& input : node.input()) readers.emplace(input, &node);
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) collect_readers(attribute.g(), readers);
      for (const auto& inner : attribute.graphs()) collect_readers(inner, readers);
    }
  }
  for (const auto& output : graph.output()) readers.emplace(output.name(), nullptr);
}

class ModelImporter {
 public:
  explicit ModelImporter(const Model& model) : model_(model), proto_(model.skeleton()) {}
  ImportedModel run();

 private:
  void check_header();
  std::map<std::string, int64_t> read_opsets(const OpsetImports& imports, const std::string& where);
  void import_main_graph();
  void read_initializers(BodyImporter& body);
  void check_unread(const onnx::TensorProto& tensor);
  void read_inputs(BodyImporter& body);
  void check_outputs(const BodyImporter& body);
  void add_values();
  void apply_declared_types();
  Function import_function(const onnx::FunctionProto& proto);
  void tell(const BodyImporter& body) {
    result_.notices.insert(result_.notices.end(), body.notices().begin(), body.notices().end());
  }
  TensorType declared_type(const onnx::ValueInfoProto& info, std::string_view what);

  const Model& model_;
  const onnx::ModelProto& proto_;
  Faults faults_;
  FunctionIndex functions_;
  ImportedModel result_;
  std::unordered_map<std::string_view, Tensor> initializers_;
  std::set<std::string_view> foreign_;  // initializers of types that can't be held
  Readers readers_;                     // of the main graph, once one of them was met
  std::unordered_map<std::string_view, TensorType> input_types_;
};

ImportedModel ModelImporter::run() {
  result_.graph = std::make_unique<Graph>();
  check_header();
  functions_ = index_functions(proto_, faults_);
  check_calls(proto_, functions_, faults_);
  import_main_graph();
  for (const auto& function : proto_.functions()) {
    result_.functions.push_back(import_function(function));
  }
  const std::string label =
      model_.path().empty() ? std::string("the model in memory") : escaped(model_.path().string());
  faults_.throw_if_any(label);
  return std::move(result_);
}

void ModelImporter::check_header() {
  Graph& graph = *result_.graph;
  graph.ir_version = proto_.ir_version();
  if (graph.ir_version < kOldestIr || graph.ir_version > kNewestIr) {
    faults_.add("IR version {} is not supported; supported are {} to {}; {}", graph.ir_version,
                kOldestIr, kNewestIr,
                graph.ir_version > kNewestIr
                    ? "export for an older ONNX, or, if the file uses nothing new, set its "
                      "ir_version lower"
                    : "export it again with a newer exporter");
  }
  graph.opsets = read_opsets(proto_.opset_import(), "");
  if (graph.opsets.empty()) faults_.add("the model has no opset import");
  if (const auto main = graph.opsets.find("");
      main != graph.opsets.end() && main->second > kNewestOpset) {
    result_.notices.push_back(fmt::format(
        "opset {} is newer than {}, the newest one supported; operators are read as in opset {}",
        main->second, kNewestOpset, kNewestOpset));
  }
  if (proto_.training_info_size() > 0) {
    result_.notices.push_back("the file's training_info is kept as it is and not used");
  }
}

std::map<std::string, int64_t> ModelImporter::read_opsets(const OpsetImports& imports,
                                                          const std::string& where) {
  std::map<std::string, int64_t> opsets;
  for (const auto& import : imports) {
    const std::string domain = normal_domain(import.domain());
    const auto [known, fresh] = opsets.emplace(domain, import.version());
    if (!fresh && known->second != import.version()) {
      faults_.add("{}two opset imports for domain {}: {} and {}", where, in_quotes(domain),
                  known->second, import.version());
    }
    if (domain.empty() && import.version() < kOldestOpset) {
      faults_.add("{}opset {} does not exist; supported are {} to {}", where, import.version(),
                  kOldestOpset, kNewestOpset);
    }
  }
  return opsets;
}

// Takes over what a graph can hold; anything else becomes an undefined type and a notice.
TensorType ModelImporter::declared_type(const onnx::ValueInfoProto& info, std::string_view what) {
  std::string problem;
  if (auto type = import_type(info.type(), problem)) return std::move(*type);
  if (info.has_type() && problem != "no type") {
    result_.notices.push_back(fmt::format("{} {} has {}", what, in_quotes(info.name()), problem));
  }
  return {};
}

void ModelImporter::read_initializers(BodyImporter& body) {
  for (const auto& tensor : proto_.graph().initializer()) {
    if (!body.define(tensor.name(), "initializer")) continue;
    if (foreign_bits(tensor.data_type()) > 0) {
      check_unread(tensor);
      continue;
    }
    try {
      initializers_.emplace(tensor.name(), model_.payload(tensor));
    } catch (const Error& error) {
      faults_.add_text(error.what());
    }
  }
  for (const auto& sparse : proto_.graph().sparse_initializer()) {
    const std::string& name = sparse.values().name();
    if (body.define(name, "sparse initializer")) {
      faults_.add("initializer {} is sparse, which is not supported; store it as a dense tensor",
                  in_quotes(name));
    }
  }
}

// A type that can't be held does no harm where nobody reads it: the tensor stays in the file and
// comes into no graph.
void ModelImporter::check_unread(const onnx::TensorProto& tensor) {
  const std::string& name = tensor.name();
  foreign_.insert(name);
  if (readers_.empty()) collect_readers(proto_.graph(), readers_);
  const auto reader = readers_.find(name);
  if (reader == readers_.end()) {
    result_.notices.push_back(
        fmt::format("initializer {} is kept as it is: nothing reads it, and its element type {} is "
                    "not supported",
                    in_quotes(name), data_type_name(tensor.data_type())));
    return;
  }
  TensorMessage message;
  message.name = name;
  message.data_type = tensor.data_type();
  try {
    checked_dtype(message);
  } catch (const Error& error) {
    faults_.add("{}; {}", error.what(),
                reader->second == nullptr
                    ? std::string("it is an output of the graph")
                    : fmt::format("node {} reads it", node_label(*reader->second)));
  }
}

void ModelImporter::read_inputs(BodyImporter& body) {
  std::set<std::string_view> seen;
  for (const auto& input : proto_.graph().input()) {
    const std::string& name = input.name();
    const bool is_initializer = body.is_defined(name);
    if (!name.empty() && !seen.insert(name).second) {
      faults_.add("two graph inputs are called {}", in_quotes(name));
      continue;
    }
    if (!is_initializer && !body.define(name, "graph input")) continue;
    if (foreign_.contains(name)) continue;
    TensorType type = declared_type(input, "graph input");
    std::string problem;
    // What isn't a tensor can't be fed, so nothing behind it could run.
    if (!import_type(input.type(), problem) && !is_initializer) {
      faults_.add("graph input {} has {}; only tensors can be fed", in_quotes(name), problem);
    }
    const auto data = initializers_.find(name);
    if (data == initializers_.end()) {
      input_types_.emplace(name, std::move(type));
      continue;
    }
    const TensorType found = data->second.type();
    bool same = type.dtype == DType::kUndefined || type.dtype == found.dtype;
    if (type.ranked) {
      same = same && type.rank() == found.rank();
      for (int i = 0; same && i < found.rank(); ++i) {
        same = !type.dims[i].known() || type.dims[i].value == found.dims[i].value;
      }
    }
    if (!same) {
      faults_.add("initializer {} is {}, but the input of that name is declared as {}",
                  in_quotes(name), found.str(), type.str());
    }
  }
}

void ModelImporter::check_outputs(const BodyImporter& body) {
  const auto& graph = proto_.graph();
  if (graph.node_size() == 0 && graph.output_size() == 0) {
    faults_.add("the graph is empty: no nodes and no outputs");
  } else if (graph.output_size() == 0) {
    faults_.add("the graph has no outputs");
  }
  std::set<std::string_view> seen;
  for (const auto& output : graph.output()) {
    if (output.name().empty()) {
      faults_.add("a graph output has no name");
    } else if (!seen.insert(output.name()).second) {
      faults_.add("the graph output {} is listed twice", in_quotes(output.name()));
    } else if (!body.is_defined(output.name())) {
      faults_.add("the graph output {} is made by no node", in_quotes(output.name()));
    }
  }
}

void ModelImporter::add_values() {
  Graph& graph = *result_.graph;
  for (const auto& input : proto_.graph().input()) {
    if (initializers_.contains(input.name()) || foreign_.contains(input.name())) continue;
    Value* value = graph.add_input(input.name(), std::move(input_types_[input.name()]));
    value->origin.kind = Origin::Kind::kGraphInput;
    value->origin.tensor = input.name();
  }
  for (const auto& tensor : proto_.graph().initializer()) {
    if (foreign_.contains(tensor.name())) continue;
    Value* value = graph.add_constant(tensor.name(), std::move(initializers_[tensor.name()]));
    value->origin.kind = Origin::Kind::kInitializer;
    value->origin.tensor = tensor.name();
  }
}

// Types of results are hints that inference overwrites; a graph output's own declaration goes
// first.
void ModelImporter::apply_declared_types() {
  Graph& graph = *result_.graph;
  int unknown = 0;
  const auto apply = [&](const onnx::ValueInfoProto& info, std::string_view what) {
    Value* value = graph.find(info.name());
    if (value == nullptr) ++unknown;
    if (value == nullptr || value->kind != ValueKind::kResult) return;
    TensorType type = declared_type(info, what);
    if (type.dtype != DType::kUndefined) value->type = std::move(type);
  };
  for (const auto& info : proto_.graph().value_info()) apply(info, "value");
  if (unknown > 0) {
    result_.notices.push_back(
        fmt::format("value_info describes {} value(s) that the graph doesn't have", unknown));
  }
  for (const auto& output : proto_.graph().output()) apply(output, "graph output");
}

void ModelImporter::import_main_graph() {
  Graph& graph = *result_.graph;
  const auto& proto = proto_.graph();
  if (!proto.name().empty()) graph.name = proto.name();
  BodyImporter body(model_, functions_, graph, BodyImporter::Place::kMainGraph, "", faults_);
  read_initializers(body);
  read_inputs(body);
  body.check(proto.node());
  tell(body);
  check_outputs(body);
  if (!faults_.empty()) return;

  add_values();
  body.build(proto.node());
  for (const auto& output : proto.output()) graph.add_output(graph.find(output.name()));
  apply_declared_types();
  if (!body.was_sorted()) {
    result_.notices.push_back(
        "the nodes of the file are not in an order that can be run; they were sorted");
  }
}

Function ModelImporter::import_function(const onnx::FunctionProto& proto) {
  const std::string where = fmt::format("in function {}: ", in_quotes(proto.name()));
  Function function;
  function.domain = normal_domain(proto.domain());
  function.name = function_name(proto);
  function.overload = function_overload(proto);
  // ONNX leaves it to runtimes which of the two has priority.
  if (function.domain.empty()) {
    result_.notices.push_back(
        fmt::format("the file has a function {} in ONNX's own domain: nodes of that name call it, "
                    "not the standard operator",
                    in_quotes(function.name)));
  }
  function.inputs.assign(proto.input().begin(), proto.input().end());
  function.outputs.assign(proto.output().begin(), proto.output().end());
  function.attributes.assign(proto.attribute().begin(), proto.attribute().end());
  function.opsets = read_opsets(proto.opset_import(), where);
  if (function.opsets.empty()) function.opsets = result_.graph->opsets;
  function.body = std::make_unique<Graph>();
  Graph& graph = *function.body;
  graph.name = function.name;
  graph.ir_version = result_.graph->ir_version;
  graph.opsets = function.opsets;
  try {
    for (const auto& attribute : function_defaults(proto)) {
      function.attribute_defaults.insert_or_assign(attribute.name(),
                                                   import_attribute(model_, attribute));
    }
  } catch (const Error& error) {
    faults_.add("{}{}", where, error.what());
  }

  BodyImporter body(model_, functions_, graph, BodyImporter::Place::kFunction, where, faults_);
  for (const std::string& name : proto.input()) body.define(name, "function input");
  body.check(proto.node());
  tell(body);
  std::set<std::string_view> seen;
  for (const std::string& name : proto.output()) {
    if (!body.is_defined(name))
      faults_.add("{}its output {} is made by no node", where, in_quotes(name));
    if (!seen.insert(name).second)
      faults_.add("{}its output {} is listed twice", where, in_quotes(name));
  }
  if (!faults_.empty()) return function;

  for (const std::string& name : proto.input()) graph.add_input(name, {});
  body.build(proto.node());
  for (const std::string& name : proto.output()) graph.add_output(graph.find(name));
  return function;
}

}  // namespace

std::map<const Node*, std::string> call_labels(const Graph& body,
                                               const std::vector<Function>& functions) {
  std::set<std::pair<std::string_view, std::string_view>> names;
  for (const Function& function : functions) names.emplace(function.domain, function.name);
  std::vector<const Node*> nodes;
  std::vector<CallSite> calls;
  for (const Node& node : body.nodes()) {
    if (!names.contains({node.domain, node.op}) && subgraphs_of(node).empty()) continue;
    nodes.push_back(&node);
    calls.push_back({node.name, node.op, node.origin.node});
  }
  const std::vector<std::string> labels = call_labels(calls);
  std::map<const Node*, std::string> result;
  for (size_t i = 0; i < nodes.size(); ++i) result.emplace(nodes[i], labels[i]);
  return result;
}

ImportedModel import_model(const std::shared_ptr<const Model>& model) {
  return ModelImporter(*model).run();
}

}  // namespace sardonyx::graph
