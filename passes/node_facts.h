// What several passes ask about a node or a value.
#pragma once

#include <unordered_map>
#include <vector>

#include "ops/core/op.h"

namespace sardonyx::passes {

// What the operator takes from this input; kNone for an unknown operator too.
ops::ParameterSlot slot_of(const graph::Use& use);
// kScale or kSlope.
bool is_scale(ops::ParameterSlot slot);
// Whether it has a scale or a slope among its inputs: a normalisation, or a trained activation.
bool takes_scale(graph::Node& node);
// The node that makes the product to which this use adds; null: it adds to none.
graph::Node* product_added_to(const graph::Use& use);

// The value whose memory this one shows, through all views of it.
const graph::Value* viewed(const graph::Value* value);

// Somebody takes it when the plan ends: an output, or what a state holds from then on.
bool outlives_plan(const graph::Graph& graph, const graph::Value* value);

// The node before which all of these are there (null ones don't count); nullptr: the end.
graph::Node* node_behind(graph::Graph& graph, const std::vector<const graph::Value*>& values);

// The same, asked many times: the node list is walked once. Beside what `put` is told of, the list
// must not change, and nothing that was put there may be asked for.
class NodeOrder {
 public:
  explicit NodeOrder(graph::Graph& graph);
  graph::Node* behind(const std::vector<const graph::Value*>& values) const;
  // `node` now stands where behind(values) said.
  void put(graph::Node* node, const std::vector<const graph::Value*>& values);

 private:
  struct Place {
    int64_t position = 0;
    graph::Node* next = nullptr;
  };
  const Place& last_of(const std::vector<const graph::Value*>& values) const;

  Place begin_;  // in front of all
  std::unordered_map<const graph::Node*, Place> places_;
};

}  // namespace sardonyx::passes
