#include "tests/support/interpret.h"

#include <functional>
#include <random>

#include "graph/support/error.h"
#include "ops/core/kernel.h"

namespace sardonyx::tests {

using graph::Tensor;
using graph::Value;

namespace {

Tensor start_of(const Value& state, const std::map<std::string, Tensor>& states) {
  if (const auto it = states.find(state.name); it != states.end()) return it->second;
  if (state.data.defined()) return state.data.cast(state.type.dtype);
  return Tensor(state.type.dtype, state.type.shape());
}

}  // namespace

Interpreted interpret(const graph::Graph& graph, const std::map<std::string, Tensor>& feeds,
                      const std::map<std::string, Tensor>& states) {
  Interpreted result;
  for (const Value& value : graph.values()) {
    if (value.is_constant()) result.values[value.name] = value.data;
    if (value.is_state()) result.values[value.name] = start_of(value, states);
  }
  for (const Value* input : graph.inputs()) result.values[input->name] = feeds.at(input->name);
  for (const graph::Node& node : graph.nodes()) {
    std::vector<Tensor> inputs;
    for (const Value* value : node.inputs()) {
      inputs.push_back(value == nullptr ? Tensor() : result.values.at(value->name));
    }
    const std::vector<Tensor> outputs = ops::evaluate(node, inputs);
    for (int slot = 0; slot < node.num_outputs(); ++slot) {
      if (node.output(slot) != nullptr) result.values[node.output(slot)->name] = outputs[slot];
    }
  }
  for (const Value* state : graph.states()) {
    const Value* next = graph.bound(state);
    result.states[state->name] = result.values.at(next != nullptr ? next->name : state->name);
  }
  return result;
}

std::map<std::string, Tensor> random_feeds(const graph::Graph& graph, uint64_t seed) {
  std::map<std::string, Tensor> feeds;
  for (const Value* input : graph.inputs()) {
    std::mt19937_64 random(seed ^ std::hash<std::string>()(input->name));
    const std::vector<int64_t> shape = input->type.shape();
    std::vector<double> values(graph::checked_numel(shape));
    const bool floats = graph::is_floating(input->type.dtype);
    for (double& value : values) {
      const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
      value = floats ? 2.0 * unit - 1.0 : static_cast<double>(static_cast<int>(unit * 3.0));
    }
    feeds[input->name] = Tensor::of<double>(shape, values).cast(input->type.dtype);
  }
  return feeds;
}

}  // namespace sardonyx::tests
