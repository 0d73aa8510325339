// Runs a graph node by node with the reference kernels: the oracle for passes and plans.
#pragma once

#include <map>
#include <string>

#include "graph/graph.h"

namespace sardonyx::tests {

struct Interpreted {
  std::map<std::string, graph::Tensor> values;  // every value of the graph by name
  std::map<std::string, graph::Tensor> states;  // after the bindings
};

// `feeds`: inputs by name. States start from `states` where given, else from their initial value
// (or zeros).
Interpreted interpret(const graph::Graph& graph, const std::map<std::string, graph::Tensor>& feeds,
                      const std::map<std::string, graph::Tensor>& states = {});

// Small random tensors for every input of the graph (floats in [-1, 1], integers in [0, 3)). The
// same name gets the same values in every graph.
std::map<std::string, graph::Tensor> random_feeds(const graph::Graph& graph, uint64_t seed);

}  // namespace sardonyx::tests
