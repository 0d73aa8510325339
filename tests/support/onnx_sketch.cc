#include "tests/support/onnx_sketch.h"

#include <onnx/onnx_pb.h>

#include <fstream>
#include <iterator>

#include "graph/support/error.h"

namespace sardonyx::testing {

namespace fs = std::filesystem;

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string write_file(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
  return path.string();
}

size_t count_files(const fs::path& folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

std::string floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

onnx::ModelProto base_model() {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  model.add_metadata_props()->set_key("author");
  auto& graph = *model.mutable_graph();
  graph.set_name("g");
  auto* input = graph.add_input();
  input->set_name("x");
  input->mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  graph.add_output()->set_name("y");
  return model;
}

onnx::NodeProto* add_node(onnx::ModelProto& model, const std::string& op,
                          const std::vector<std::string>& inputs, const std::string& output) {
  auto* node = model.mutable_graph()->add_node();
  node->set_op_type(op);
  for (const auto& name : inputs) node->add_input(name);
  node->add_output(output);
  return node;
}

onnx::FunctionProto* add_leaky_function(onnx::ModelProto& model) {
  auto* import = model.add_opset_import();
  import->set_domain("local");
  import->set_version(1);
  auto* function = model.add_functions();
  function->set_domain("local");
  function->set_name("F");
  function->add_input("a");
  function->add_output("b");
  function->add_attribute("alpha");
  function->add_opset_import()->set_version(17);
  auto* body = function->add_node();
  body->set_op_type("LeakyRelu");
  body->add_input("a");
  body->add_output("b");
  auto* alpha = body->add_attribute();
  alpha->set_name("alpha");
  alpha->set_ref_attr_name("alpha");
  alpha->set_type(onnx::AttributeProto::FLOAT);
  return function;
}

onnx::TensorProto* add_weight(onnx::ModelProto& model, const std::string& name, int type,
                              int64_t size) {
  auto* tensor = model.mutable_graph()->add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(type);
  tensor->add_dims(size);
  return tensor;
}

graph::Origin initializer_origin(const std::string& name) {
  graph::Origin origin;
  origin.kind = graph::Origin::Kind::kInitializer;
  origin.tensor = name;
  return origin;
}

graph::Tensor doubles(const std::vector<double>& values) {
  return graph::Tensor::of<double>({static_cast<int64_t>(values.size())}, values);
}

}  // namespace sardonyx::testing
