#include "tests/run_cases/node_needs.h"

#include <onnx/onnx_pb.h>

#include <set>

#include "graph/model.h"
#include "graph/support/error.h"
#include "graph/tensor_message.h"
#include "ops/core/op.h"

namespace sardonyx::cases {

namespace {

class Needs {
 public:
  void collect(const onnx::GraphProto& graph) {
    for (const auto& value : graph.input()) collect(value.type());
    for (const auto& value : graph.output()) collect(value.type());
    for (const auto& tensor : graph.initializer()) add_element_type(tensor.data_type());
    for (const onnx::NodeProto& node : graph.node()) {
      all_.insert("operator:" + ops::op_label(node.domain(), node.op_type()));
      for (const auto& attribute : node.attribute()) {
        if (attribute.has_g()) collect(attribute.g());
      }
    }
  }
  std::vector<std::string> all() const { return {all_.begin(), all_.end()}; }

 private:
  void collect(const onnx::TypeProto& type) {
    if (type.has_sequence_type()) all_.insert("type:sequence");
    if (type.has_optional_type()) all_.insert("type:optional");
    if (type.has_tensor_type()) add_element_type(type.tensor_type().elem_type());
  }
  // "17 (float8e4m3fn)" without the number.
  void add_element_type(int64_t type) {
    const std::string name = graph::data_type_name(type);
    const size_t begin = name.find('(') + 1;
    all_.insert("type:" + name.substr(begin, name.size() - 1 - begin));
  }

  std::set<std::string> all_;
};

}  // namespace

std::vector<std::string> needs_of(const std::filesystem::path& folder) {
  Needs needs;
  try {
    needs.collect(graph::Model::open(folder / "model.onnx")->skeleton().graph());
  } catch (const Error&) {  // for the case to find out
    return {};
  }
  return needs.all();
}

}  // namespace sardonyx::cases
