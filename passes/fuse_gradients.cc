// fuse_gradients: what joins gradients or adds one up per channel becomes part of the operator that
// reads or writes that gradient anyway (OpDef::fusion): the sum of the gradients of two readers of
// a value, and the gradient of a bias. Gradients of slices that together are all of a value are put
// one behind the other instead of being added up as windows in zeros.
#include <algorithm>

#include "graph/names.h"
#include "ops/core/infer.h"
#include "ops/core/op_builder.h"
#include "ops/core/zero_window.h"
#include "passes/pass.h"

namespace sardonyx::passes {

namespace {

using graph::Graph;
using graph::Node;
using graph::Value;

const ops::Fusion& fusion_of(const Node& node) { return ops::OpRegistry::get().at(node).fusion; }

bool is_taken(const Graph& graph, const PassContext& context, const Value* value) {
  if (graph.is_output(value)) return true;
  return std::any_of(context.gradients.begin(), context.gradients.end(),
                     [&](const auto& pair) { return pair.second == value->name; });
}

// Reads of a value that could as well add up two values themselves.
bool can_add(const graph::Use& use) {
  const int second = fusion_of(*use.node).second;
  return use.index == 0 && second >= 0 && use.node->input(second) == nullptr;
}

bool fuse_addition(Graph& graph, const PassContext& context, Node& node) {
  if (!ops::OpRegistry::get().at(node).adds || node.num_inputs() != 2) return false;
  const Value* sum = node.output(0);
  Value *first = node.input(0), *second = node.input(1);
  const std::vector<graph::Use> uses = sum->uses();
  if (first->type != sum->type || second->type != sum->type || is_taken(graph, context, sum) ||
      uses.empty() || !std::all_of(uses.begin(), uses.end(), can_add)) {
    return false;
  }
  for (const graph::Use& use : uses) {
    graph.set_input(use.node, 0, first);
    graph.set_input(use.node, fusion_of(*use.node).second, second);
  }
  graph.remove(&node);
  return true;
}

bool join_windows(Graph& graph, Node& node) {
  Value* sum = node.output(0);
  if (!ops::OpRegistry::get().at(node).adds || graph.is_output(sum) || !sum->type.is_static()) {
    return false;
  }
  std::vector<std::pair<ops::ZeroWindow, Node*>> parts;
  for (const Value* value : node.inputs()) {
    if (value->producer == nullptr || value->type != sum->type) return false;
    const auto window = ops::zero_window_of(*value->producer);
    if (!window) return false;
    parts.push_back({*window, value->producer});
  }
  std::ranges::sort(parts, {}, [](const auto& part) { return part.first.starts; });
  std::vector<ops::ZeroWindow> windows;
  std::vector<Value*> values;
  for (const auto& [window, producer] : parts) {
    windows.push_back(window);
    values.push_back(producer->input(0));
  }
  const std::optional<int> axis = ops::filled_axis(windows, sum->type.shape());
  if (!axis) return false;
  ops::OpBuilder b(graph, &node);
  b.set_forward_node(node.forward_node);
  Value* joined = b.op("Concat", values, {{"axis", int64_t{*axis}}});
  if (joined->type != sum->type) {  // a batch in pieces
    graph.remove(joined->producer);
    return false;
  }
  const std::string name = sum->name;
  graph.replace_uses(sum, joined);
  graph.remove(&node);
  graph.rename(joined, name);
  for (const auto& part : parts) {
    Node* producer = part.second;
    if (producer->output(0)->uses().empty() && !graph.is_output(producer->output(0))) {
      graph.remove(producer);
    }
  }
  return true;
}

struct Sums {
  Value* value = nullptr;
  bool is_new = false;
};

// The sums per channel that the node adds up, from the operator that makes its operand; null: that
// one doesn't have them.
Sums sums_of_producer(Graph& graph, const Node& node) {
  const Value* summed = node.input(0);
  Node* producer = summed->producer;
  if (producer == nullptr || fusion_of(*producer).summed != summed->slot) return {};
  const int slot = fusion_of(*producer).sums;
  if (Value* sums = producer->output(slot)) return {sums, false};
  graph.add_output_value(producer, slot, graph::fresh_name(graph, summed->name + "/sums"));
  ops::infer_node(*producer);
  return {producer->output(slot), true};
}

bool fuse_channel_sums(Graph& graph, PassContext& context, Node& node) {
  const ops::OpDef& op = ops::OpRegistry::get().at(node);
  if (!op.sums_channels || node.num_inputs() != 1 || graph.is_output(node.output(0))) return false;
  Sums sums = sums_of_producer(graph, node);
  if (sums.value == nullptr) return false;
  Value* old = node.output(0);
  const std::string name = old->name;
  if (const graph::DType dtype = old->type.dtype; sums.value->type.dtype != dtype) {
    ops::OpBuilder b(graph, &node);
    b.set_forward_node(node.forward_node);
    sums = {b.op("Cast", {sums.value}, {{"to", static_cast<int64_t>(dtype)}}), true};
  }
  graph.replace_uses(old, sums.value);
  graph.remove(&node);
  if (sums.is_new) graph.rename(sums.value, name);
  for (auto& [parameter, gradient] : context.gradients) {
    if (gradient == name) gradient = sums.value->name;
  }
  return true;
}

}  // namespace

bool fuse_gradients(Graph& graph, PassContext& context) {
  std::vector<Node*> nodes;
  for (Node& node : graph.nodes()) nodes.push_back(&node);
  int additions = 0, sums = 0, joined = 0;
  for (Node* node : nodes) {
    if (node->num_inputs() > 1 && join_windows(graph, *node)) {
      ++joined;
    } else if (fuse_addition(graph, context, *node)) {
      ++additions;
    } else if (fuse_channel_sums(graph, context, *node)) {
      ++sums;
    }
  }
  if (additions + sums + joined == 0) return false;
  context.remarks.push_back(fmt::format(
      "gradients: {} added up where they are read, {} summed per channel where they are made{}",
      additions, sums, joined > 0 ? fmt::format(", {} put together from slices", joined) : ""));
  return true;
}

}  // namespace sardonyx::passes
