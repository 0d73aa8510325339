// Models in the text form, with what it can't say: graphs inside nodes and local functions.
#pragma once

#include <onnx/onnx_pb.h>

#include <map>
#include <string>

#include "runtime/session.h"

namespace sardonyx::testing {

class ModelSketch {
 public:
  explicit ModelSketch(const std::string& text);

  onnx::ModelProto& proto() { return proto_; }
  onnx::GraphProto& graph() { return *proto_.mutable_graph(); }
  // A local function: inputs, outputs and nodes of the text, and its opsets.
  onnx::FunctionProto& add_function(const std::string& domain, const std::string& name,
                                    const std::string& text);

  std::string bytes() const { return proto_.SerializeAsString(); }
  // One thread, plain SGD, mean squared error of the output named, or of the only one that fits.
  std::unique_ptr<runtime::Session> open(const std::string& output = "") const;

 private:
  onnx::ModelProto proto_;
};

// The graph of a text without its inputs: those are what it reads from around it.
onnx::GraphProto inner_graph(const std::string& text);
void set_graph(onnx::NodeProto& node, const std::string& attribute, const onnx::GraphProto& graph);
// The node that makes this output, in a graph or a function.
template <class Body>
onnx::NodeProto& node_of(Body& body, const std::string& output) {
  for (auto& node : *body.mutable_node()) {
    for (const std::string& name : node.output()) {
      if (name == output) return node;
    }
  }
  throw std::runtime_error("no node makes " + output);
}

// What protobuf files newer than our onnx.proto add.
void set_overload(onnx::NodeProto& call, const std::string& overload);
void set_overload(onnx::FunctionProto& function, const std::string& overload);
void set_default(onnx::FunctionProto& function, const std::string& attribute, float value);

// One step on these rows: "NAME" -> its values then, for every parameter and statistic.
std::map<std::string, std::vector<double>> states_after_step(
    runtime::Session& session, const std::vector<std::vector<float>>& x,
    const std::vector<std::vector<float>>& labels, double lr);
std::map<std::string, std::vector<double>> states_of(const runtime::Session& session);
// The first output for these rows, in evaluation form.
std::vector<double> output_for(runtime::Session& session, const std::vector<std::vector<float>>& x);

}  // namespace sardonyx::testing
