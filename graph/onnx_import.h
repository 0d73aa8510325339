// Model -> Graph. Knows no operator: every node is taken over with its domain, name, attributes and
// opsets. Initializers become constants with their Origin, whether or not they are also listed as
// inputs; nodes are sorted; model-local functions stay as nodes plus `functions` for the pass
// inline_functions.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/model.h"

namespace sardonyx::graph {

struct Function {
  // Calls are nodes with this domain and operator; of an overloaded function `name` is
  // "NAME:OVERLOAD", and so is the operator of its calls.
  std::string domain, name, overload;
  std::vector<std::string> inputs, outputs, attributes;
  std::map<std::string, Attribute, std::less<>> attribute_defaults;
  std::map<std::string, int64_t> opsets;
  // The body as a graph: inputs are untyped, weights are Constant nodes.
  std::unique_ptr<Graph> body;
};

struct ImportedModel {
  std::unique_ptr<Graph> graph;
  std::vector<Function> functions;
  std::vector<std::string>
      notices;  // training_info kept untouched, stale value_info, unsorted nodes, ...
};

// The label of each call of a local function in `body`, and of each node with graphs inside, as
// Origin::path spells it: the node's name (its operator when it has none) if no other of them is
// named so, else "NAME#INDEX" with the node's index in the file. Paths are labels, of a graph
// inside a node "LABEL/ATTRIBUTE", joined by slashes; inlining has to use these, or saving doesn't
// find the way back.
std::map<const Node*, std::string> call_labels(const Graph& body,
                                               const std::vector<Function>& functions);

// Throws Error that lists every structural fault of the file (duplicate names, undefined inputs,
// cycles, type and shape of initializers, IR and opset out of range ...), one per line.
ImportedModel import_model(const std::shared_ptr<const Model>& model);

}  // namespace sardonyx::graph
