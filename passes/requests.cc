#include "passes/requests.h"

#include "passes/target.h"

namespace sardonyx::passes {

using graph::TensorType;
using graph::Value;

TensorType type_for(const graph::Graph& graph, const Value& value, int64_t rows) {
  TensorType type = value.type;
  if (rows > 0 && ops::carries_batch(graph, &value)) type.dims[0].value = rows;
  return type;
}

int accumulate_slot(const graph::Node& node) {
  const ops::OpDef& op = ops::OpRegistry::get().at(node);
  const int slot = op.accumulate_input;
  return slot >= 0 && node.input(slot) != nullptr ? slot : -1;
}

ops::KernelRequest request_for(const graph::Graph& graph, const graph::Node& node, int64_t rows) {
  ops::KernelRequest request = ops::KernelRequest::of(node);
  for (int i = 0; i < node.num_inputs(); ++i) {
    if (node.input(i) != nullptr) request.in[i] = type_for(graph, *node.input(i), rows);
  }
  for (int i = 0; i < node.num_outputs(); ++i) {
    if (node.output(i) != nullptr) request.out[i] = type_for(graph, *node.output(i), rows);
  }
  if (const int slot = accumulate_slot(node); slot >= 0) {
    request.in[slot] = TensorType();
    request.constants[slot] = nullptr;
  }
  return request;
}

ops::KernelRequest on_target(ops::KernelRequest request, const PassContext& context) {
  request.libraries = context.target->libraries();
  if (context.options.precision == Precision::kTf32) request.math = ops::ProductMath::kTf32;
  return request;
}

bool may_lie(const graph::Graph& graph, const Value* value, InnerLayout inner) {
  return ops::carries_batch(graph, value) &&
         (inner == InnerLayout::kLanes || value->type.rank() >= 3);
}

graph::Layout layout_of(InnerLayout inner, int rank) {
  return inner == InnerLayout::kLanes ? graph::Layout::lanes(16)
                                      : graph::Layout::channels_last(rank);
}

ops::KernelRequest request_in(const graph::Graph& graph, const graph::Node& node, int64_t rows,
                              InnerLayout inner) {
  ops::KernelRequest request = request_for(graph, node, rows);
  const auto put = [&](const Value* value, TensorType& type) {
    if (may_lie(graph, value, inner) && type.dtype != graph::DType::kUndefined) {
      type.layout = layout_of(inner, type.rank());
    }
  };
  for (int i = 0; i < node.num_inputs(); ++i) put(node.input(i), request.in[i]);
  for (int i = 0; i < node.num_outputs(); ++i) put(node.output(i), request.out[i]);
  return request;
}

}  // namespace sardonyx::passes
