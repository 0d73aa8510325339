// convert_dtype: the compute type everywhere (inputs, constants, attributes) for float, and for the
// half types, which are how a file stores numbers, not what training computes in: its weights are
// trained as they are in the wider type and rounded when they are saved. Doubles that the file
// itself uses stay doubles.
#include "ops/core/op.h"
#include "passes/pass.h"

namespace sardonyx::passes {

namespace {

using graph::DType;

bool converts(int64_t dtype) {
  return dtype == static_cast<int64_t>(DType::kFloat32) ||
         dtype == static_cast<int64_t>(DType::kFloat16) ||
         dtype == static_cast<int64_t>(DType::kBFloat16);
}

class Conversion {
 public:
  explicit Conversion(DType to) : to_(to) {}

  void convert(graph::Value& value) {
    if (!changes(value.type.dtype)) return;
    value.type.dtype = to_;
    if (value.data.defined()) value.data = value.data.cast(to_);
  }

  void convert(graph::Node& node) {
    const ops::OpDef* op = ops::OpRegistry::get().find(node);
    for (auto& [name, attribute] : node.attributes) {
      auto* tensor = std::get_if<graph::Tensor>(&attribute);
      if (tensor != nullptr && changes(tensor->dtype())) *tensor = tensor->cast(to_);
      auto* number = std::get_if<int64_t>(&attribute);
      if (op == nullptr || number == nullptr || !converts(*number)) continue;
      for (const std::string& holder : op->dtype_attributes) {
        if (name != holder || *number == static_cast<int64_t>(to_)) continue;
        *number = static_cast<int64_t>(to_);
        changed_ = true;
      }
    }
  }

  bool changed() const { return changed_; }

 private:
  bool changes(DType dtype) {
    const bool yes = dtype != to_ && converts(static_cast<int64_t>(dtype));
    changed_ = changed_ || yes;
    return yes;
  }

  DType to_;
  bool changed_ = false;
};

}  // namespace

bool convert_dtype(graph::Graph& graph, PassContext& context) {
  Conversion conversion(context.options.dtype);
  for (graph::Value& value : graph.values()) conversion.convert(value);
  for (graph::Node& node : graph.nodes()) conversion.convert(node);
  return conversion.changed();
}

}  // namespace sardonyx::passes
