// Small ONNX files for tests of reading and saving, built as protobuf messages.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace onnx {
class FunctionProto;
class ModelProto;
class NodeProto;
class TensorProto;
}  // namespace onnx

namespace sardonyx::testing {

// What the Error says that `body` throws; "no error" without one.
std::string error_of(const std::function<void()>& body);

// Returns the path as text.
std::string write_file(const std::filesystem::path& path, const std::string& bytes);
size_t count_files(const std::filesystem::path& folder);
// The bytes of floats.
std::string floats(const std::vector<float>& values);

// IR 8, opset 17, a float input x, an output y that the test's nodes have to make.
onnx::ModelProto base_model();
onnx::NodeProto* add_node(onnx::ModelProto& model, const std::string& op,
                          const std::vector<std::string>& inputs, const std::string& output);
// local.F(a) = LeakyRelu(a) with the slope of its attribute `alpha`, which a call must give.
onnx::FunctionProto* add_leaky_function(onnx::ModelProto& model);
// An initializer of one axis, still without values.
onnx::TensorProto* add_weight(onnx::ModelProto& model, const std::string& name, int type,
                              int64_t size);

graph::Origin initializer_origin(const std::string& name);
graph::Tensor doubles(const std::vector<double>& values);

}  // namespace sardonyx::testing
