// convert_dtype: the compute type everywhere (inputs, constants, attributes) for float, and for the
// half types, which are how a file stores numbers, not what training computes in: its weights are
// trained as they are in the wider type and rounded when they are saved. Doubles that the file
// itself uses stay doubles; a constant that it only ever casts to another float is one of those.
// Behind the conversion operands of several types look like one, so what an operator binds to one
// type is asked for here, in the types of the file.
#include <algorithm>
#include <string>
#include <unordered_set>
#include <vector>

#include "ops/core/one_type.h"
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

// Longer chains of views don't come from exporters.
constexpr int kLongestChain = 16;

// Every reader of the double takes it, perhaps under another shape, to a type that is converted.
// `chain` gets the value and what its readers move it to.
bool only_cast(const graph::Graph& graph, graph::Value& value, std::vector<graph::Value*>& chain) {
  chain.push_back(&value);
  if (value.uses().empty() || graph.is_output(&value)) return false;
  return std::ranges::all_of(value.uses(), [&](const graph::Use& use) {
    const graph::Node& node = *use.node;
    if (node.is("", "Cast")) return converts(node.get_int("to", 0));
    const ops::OpDef* op = ops::OpRegistry::get().find(node);
    const bool moves = node.is("", "Transpose") || (op != nullptr && op->view);
    return moves && use.index == 0 && chain.size() < kLongestChain &&
           only_cast(graph, *node.output(0), chain);
  });
}

class Conversion {
 public:
  explicit Conversion(DType to) : to_(to) {}

  void convert(graph::Value& value) {
    if (!changes(value.type.dtype)) return;
    value.type.dtype = to_;
    if (value.data.defined()) value.data = value.data.cast(to_);
  }

  void convert_cast_constant(const graph::Graph& graph, graph::Value& value) {
    if (!value.is_constant() || value.type.dtype != DType::kFloat64 || to_ == DType::kFloat64) {
      return;
    }
    std::vector<graph::Value*> chain;
    if (!only_cast(graph, value, chain)) return;
    value.data = value.data.cast(to_);
    for (graph::Value* moved : chain) moved->type.dtype = to_;
    changed_ = true;
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

// What normalisation made of an attribute is float, whatever the type of the file.
bool reads_attribute(const graph::Node& node) {
  return std::ranges::any_of(node.inputs(), [](const graph::Value* value) {
    return value != nullptr && value->is_constant() &&
           value->origin.kind == graph::Origin::Kind::kNone;
  });
}

bool inputs_typed(const graph::Node& node) {
  return std::ranges::all_of(node.inputs(), [](const graph::Value* value) {
    return value == nullptr || value->type.dtype != DType::kUndefined;
  });
}

// canonicalize has left the node as the file has it.
bool is_refused(const graph::Node& node, const std::unordered_set<std::string>& refused) {
  return std::ranges::any_of(node.outputs(), [&](const graph::Value* value) {
    return value != nullptr && refused.contains(value->name);
  });
}

// Shapes aren't known yet: whatever else a rule says against a node, it will say again later.
void refuse_mixed_types(const graph::Graph& file, PassContext& context) {
  std::unordered_set<std::string> refused;
  for (const UnsupportedNode& node : context.unsupported) refused.insert(node.output);
  const auto graph = file.clone();
  for (graph::Node& node : graph->nodes()) {
    bool known = ops::OpRegistry::get().find(node) != nullptr && inputs_typed(node) &&
                 !is_refused(node, refused);
    try {
      if (known) ops::infer_node(node);
    } catch (const ops::MixedTypesError& error) {
      known = false;
      if (!reads_attribute(node)) {
        context.unsupported.push_back(
            unsupported(node, UnsupportedNode::Kind::kFault, error.what()));
      }
    } catch (const Error&) {
      known = false;
    }
    for (graph::Value* value : node.outputs()) {
      if (value != nullptr && !known) value->type = {};
    }
  }
}

}  // namespace

bool convert_dtype(graph::Graph& graph, PassContext& context) {
  Conversion conversion(context.options.dtype);
  const bool any = std::ranges::any_of(graph.values(), [&](const graph::Value& value) {
    return value.kind != graph::ValueKind::kResult && value.type.dtype != context.options.dtype &&
           converts(static_cast<int64_t>(value.type.dtype));
  });
  if (any) refuse_mixed_types(graph, context);
  for (graph::Value& value : graph.values()) conversion.convert_cast_constant(graph, value);
  for (graph::Value& value : graph.values()) conversion.convert(value);
  for (graph::Node& node : graph.nodes()) conversion.convert(node);
  return conversion.changed();
}

}  // namespace sardonyx::passes
