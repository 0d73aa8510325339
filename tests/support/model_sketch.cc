#include "tests/support/model_sketch.h"

#include "graph/onnx_export.h"
#include "graph/parse.h"

namespace sardonyx::testing {

using graph::Tensor;

namespace {

onnx::ModelProto model_of(const std::string& text) {
  onnx::ModelProto model;
  model.ParseFromString(graph::to_onnx_bytes(*graph::parse(text)));
  return model;
}

Tensor rows_of(const std::vector<std::vector<float>>& rows) {
  std::vector<float> values;
  for (const auto& row : rows) values.insert(values.end(), row.begin(), row.end());
  return Tensor::of<float>({std::ssize(rows), std::ssize(rows.front())}, values);
}

}  // namespace

ModelSketch::ModelSketch(const std::string& text) : proto_(model_of(text)) {}

onnx::FunctionProto& ModelSketch::add_function(const std::string& domain, const std::string& name,
                                               const std::string& text) {
  const onnx::ModelProto model = model_of(text);
  onnx::FunctionProto& function = *proto_.add_functions();
  function.set_domain(domain);
  function.set_name(name);
  for (const auto& input : model.graph().input()) function.add_input(input.name());
  for (const auto& output : model.graph().output()) function.add_output(output.name());
  *function.mutable_node() = model.graph().node();
  *function.mutable_opset_import() = model.opset_import();
  return function;
}

std::unique_ptr<runtime::Session> ModelSketch::open(const std::string& output) const {
  runtime::SessionOptions options;
  options.threads = 1;
  options.pipeline.loss.kind = "mse";
  options.pipeline.loss.output = output;
  return std::make_unique<runtime::Session>(graph::Model::from_bytes(bytes()), options);
}

onnx::GraphProto inner_graph(const std::string& text) {
  onnx::GraphProto graph = model_of(text).graph();
  graph.clear_input();
  return graph;
}

void set_graph(onnx::NodeProto& node, const std::string& attribute, const onnx::GraphProto& graph) {
  onnx::AttributeProto& entry = *node.add_attribute();
  entry.set_name(attribute);
  entry.set_type(onnx::AttributeProto::GRAPH);
  *entry.mutable_g() = graph;
}

void set_overload(onnx::NodeProto& call, const std::string& overload) {
  call.mutable_unknown_fields()->AddLengthDelimited(8, overload);
}

void set_overload(onnx::FunctionProto& function, const std::string& overload) {
  function.mutable_unknown_fields()->AddLengthDelimited(13, overload);
}

void set_default(onnx::FunctionProto& function, const std::string& attribute, float value) {
  onnx::AttributeProto fallback;
  fallback.set_name(attribute);
  fallback.set_type(onnx::AttributeProto::FLOAT);
  fallback.set_f(value);
  function.mutable_unknown_fields()->AddLengthDelimited(11, fallback.SerializeAsString());
}

std::map<std::string, std::vector<double>> states_of(const runtime::Session& session) {
  std::map<std::string, std::vector<double>> states;
  for (const std::string& name : session.state_names()) {
    if (!name.starts_with("acc/")) states[name] = session.state(name).to_doubles();
  }
  return states;
}

std::map<std::string, std::vector<double>> states_after_step(
    runtime::Session& session, const std::vector<std::vector<float>>& x,
    const std::vector<std::vector<float>>& labels, double lr) {
  runtime::Batch batch;
  batch.inputs.emplace_back("", rows_of(x));
  batch.labels = rows_of(labels);
  session.describe_data({}, graph::TensorType(graph::DType::kFloat32,
                                              {graph::Dim(), graph::Dim(std::ssize(labels[0]))}));
  session.train_step(batch, {{std::ssize(x)}}, lr);
  return states_of(session);
}

std::vector<double> output_for(runtime::Session& session,
                               const std::vector<std::vector<float>>& x) {
  runtime::Batch batch;
  batch.inputs.emplace_back("", rows_of(x));
  return session.forward(batch, passes::Mode::kEval).at(0).second.to_doubles();
}

}  // namespace sardonyx::testing
