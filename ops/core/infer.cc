#include "ops/core/infer.h"

#include <algorithm>

#include "graph/support/text.h"
#include "graph/values_behind.h"
#include "ops/core/data_shape.h"
#include "ops/core/gradient_flow.h"

namespace sardonyx::ops {

namespace {

std::string port_name(const Node& node, int i) {
  const OpDef* op = OpRegistry::get().find(node);
  const Port* port = op == nullptr ? nullptr : port_of(*op, i);
  return port == nullptr ? "" : " (" + port->name + ")";
}

// Refused here, before anything is allocated: a hostile or mistaken shape ("tile by 2^40").
constexpr size_t kMaxValueBytes = size_t{1} << 40;
constexpr int64_t kMostAxes = 1024;

// An operator that isn't known stands before the value: that is the fault to report, not this one.
bool computed_by_unknown(const Value* value) {
  return std::ranges::any_of(graph::values_behind({value}), [](const Value* v) {
    return v->producer != nullptr && OpRegistry::get().find(*v->producer) == nullptr;
  });
}

// Shape rules multiply sizes of an operand with each other (ops/core/sizes.h).
void require_countable(const Value* value) {
  if (value == nullptr) return;
  std::vector<int64_t> known;
  for (const Dim& dim : value->type.dims) {
    if (dim.known()) known.push_back(dim.value);
  }
  with_context(
      [&] { return fmt::format("counting '{}' of type {}", value->name, value->type.str()); },
      [&] { graph::checked_numel(known); });
}

void check_size(const Value* value) {
  require_countable(value);
  if (value == nullptr || !value->type.is_static()) return;
  if (value->type.bytes() > kMaxValueBytes) {
    throw Error("output '{}' of type {} would need {} bytes, more than any machine has",
                value->name, value->type.str(), value->type.bytes());
  }
}

// Gradients, folding and kernels take for granted what a shape rule may not look at. The rules that
// write Sardonyx's own operators know which inputs go together.
void require_inputs(const InferContext& context, const OpDef& op) {
  if (op.domain == kDomain) return;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (op.inputs[i].presence == Presence::kRequired) context.type(static_cast<int>(i));
  }
}

}  // namespace

std::string input_label(const Node& node, int i) {
  return fmt::format("input {}{} {}", i, port_name(node, i),
                     support::in_quotes(node.input(i)->name));
}

const TensorType& InferContext::type(int i) const {
  const Value* value = node_.input(i);
  if (value == nullptr) throw Error("input {}{} is required", i, port_name(node_, i));
  return value->type;
}

int InferContext::listed_rank(int i) const {
  if (rank(i) != 1 || !dims(i)[0].known()) return -1;
  const int64_t count = dims(i)[0].value;
  if (count > kMostAxes) {
    throw Error("input {}{} lists the sizes of {} axes; at most {} are supported", i,
                port_name(node_, i), count, kMostAxes);
  }
  return static_cast<int>(count);
}

const Tensor* InferContext::constant(int i) const {
  const Value* value = node_.input(i);
  return value != nullptr && value->is_constant() ? &value->data : nullptr;
}

std::vector<int64_t> InferContext::ints(int i) const {
  const Tensor* tensor = constant(i);
  if (tensor == nullptr) {
    const Value* value = node_.input(i);
    throw Error(
        "input {}{} '{}' must be known before training starts, but it is computed from data; "
        "export the model with a fixed shape there",
        i, port_name(node_, i), value == nullptr ? "" : value->name);
  }
  return tensor->to_ints();
}

namespace {

// Shape arithmetic in front of the value can't be folded yet.
bool still_open(const Node& node, const Value* value) {
  const std::vector<Value*>& inputs = node.graph()->inputs();
  return std::ranges::any_of(inputs, [](const Value* v) { return !v->type.is_static(); }) ||
         computed_by_unknown(value);
}

}  // namespace

std::optional<std::vector<int64_t>> InferContext::known_ints(int i) const {
  if (constant(i) != nullptr || node_.input(i) == nullptr) return ints(i);
  if (still_open(node_, node_.input(i))) return std::nullopt;
  return ints(i);
}

const Tensor* shaping_data(const InferContext& context, int i) {
  if (const Tensor* known = context.constant(i)) return known;
  if (still_open(context.node(), context.node().input(i))) return nullptr;
  throw Error(
      "{} must be known before training starts, because its elements decide how large the output "
      "is, but it is computed from data; keep a fixed number of elements instead: all of them, "
      "with those that don't count set to 0 (Where), or the first few (TopK)",
      input_label(context.node(), i));
}

void require_planned_size(const KernelRequest& request, int64_t found, int64_t planned) {
  if (found == planned) return;
  throw Error(
      "node {}: the output has {} entries now, but {} when the run was planned, because an input "
      "is "
      "trained; freeze it",
      request.node->label(), found, planned);
}

void InferContext::set(int output, TensorType type) {
  if (Value* value = node_.output(output)) value->type = std::move(type);
}

void infer_node(Node& node) {
  with_context([&] { return "inferring shapes of node " + node.label(); },
               [&] {
                 for (const Value* value : node.inputs()) require_countable(value);
                 InferContext context(node);
                 const OpDef& op = OpRegistry::get().at(node);
                 require_inputs(context, op);
                 op.infer(context);
                 for (const Value* value : node.outputs()) check_size(value);
               });
}

}  // namespace sardonyx::ops
