// convert_dtype: float32 becomes the compute type everywhere (inputs, constants, attributes). With
// float32 as compute type nothing changes: doubles that the file itself uses stay doubles.
#include "ops/core/op.h"
#include "passes/pass.h"

namespace sardonyx::passes {

bool convert_dtype(graph::Graph& graph, PassContext& context) {
  using graph::DType;
  const DType to = context.options.dtype;
  if (to == DType::kFloat32) return false;
  for (graph::Value& value : graph.values()) {
    if (value.type.dtype != DType::kFloat32) continue;
    value.type.dtype = to;
    if (value.data.defined()) value.data = value.data.cast(to);
  }
  for (graph::Node& node : graph.nodes()) {
    const ops::OpDef* op = ops::OpRegistry::get().find(node);
    for (auto& [name, attribute] : node.attributes) {
      if (auto* tensor = std::get_if<graph::Tensor>(&attribute)) {
        if (tensor->dtype() == DType::kFloat32) *tensor = tensor->cast(to);
      }
      if (op == nullptr) continue;
      for (const std::string& holder : op->dtype_attributes) {
        auto* number = std::get_if<int64_t>(&attribute);
        if (name == holder && number != nullptr &&
            *number == static_cast<int64_t>(DType::kFloat32)) {
          *number = static_cast<int64_t>(to);
        }
      }
    }
  }
  return true;
}

}  // namespace sardonyx::passes
