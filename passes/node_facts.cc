#include "passes/node_facts.h"

#include <algorithm>

namespace sardonyx::passes {

using graph::Graph;
using graph::Node;
using graph::Value;
using ops::ParameterSlot;

ParameterSlot slot_of(const graph::Use& use) {
  const ops::OpDef* op = ops::OpRegistry::get().find(*use.node);
  return op != nullptr && op->parameter_slot ? op->parameter_slot(use.index) : ParameterSlot::kNone;
}

bool is_scale(ParameterSlot slot) {
  return slot == ParameterSlot::kScale || slot == ParameterSlot::kSlope;
}

bool takes_scale(Node& node) {
  for (int i = 0; i < node.num_inputs(); ++i) {
    if (is_scale(slot_of({&node, i}))) return true;
  }
  return false;
}

Node* product_added_to(const graph::Use& use) {
  const ops::OpDef* op = ops::OpRegistry::get().find(*use.node);
  if (op == nullptr || !op->adds) return nullptr;
  for (const Value* other : use.node->inputs()) {
    if (other == nullptr || other == use.node->input(use.index)) continue;
    Node* producer = other->producer;
    if (producer != nullptr && slot_of({producer, 1}) == ParameterSlot::kWeight) return producer;
  }
  return nullptr;
}

const Value* viewed(const Value* value) {
  while (value->producer != nullptr && ops::OpRegistry::get().at(*value->producer).view) {
    value = value->producer->input(0);
  }
  return value;
}

bool outlives_plan(const Graph& graph, const Value* value) {
  return graph.is_output(value) ||
         std::ranges::any_of(graph.bindings(),
                             [&](const graph::Binding& binding) { return binding.next == value; });
}

Node* node_behind(Graph& graph, const std::vector<const Value*>& values) {
  const auto makes_one = [&](const Node& node) {
    return std::ranges::any_of(
        values, [&](const Value* value) { return value != nullptr && value->producer == &node; });
  };
  auto& nodes = graph.nodes();
  const auto last = std::find_if(nodes.rbegin(), nodes.rend(), makes_one);
  const auto behind = last.base();  // the first node when none makes any of them
  return behind == nodes.end() ? nullptr : &*behind;
}

NodeOrder::NodeOrder(Graph& graph) {
  int64_t position = 0;
  Place* last = &begin_;
  for (Node& node : graph.nodes()) {
    last->next = &node;
    last = &places_[&node];  // addresses of elements stand
    last->position = ++position;
  }
}

const NodeOrder::Place& NodeOrder::last_of(const std::vector<const Value*>& values) const {
  const Place* last = &begin_;
  for (const Value* value : values) {
    if (value == nullptr || value->producer == nullptr) continue;
    const Place& place = places_.at(value->producer);
    if (place.position > last->position) last = &place;
  }
  return *last;
}

Node* NodeOrder::behind(const std::vector<const Value*>& values) const {
  return last_of(values).next;
}

void NodeOrder::put(Node* node, const std::vector<const Value*>& values) {
  const_cast<Place&>(last_of(values)).next = node;
}

}  // namespace sardonyx::passes
