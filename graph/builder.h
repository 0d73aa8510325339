// Writes nodes one after another at one place of a graph; used by models/ and tests.
// It knows no operator and infers no types (ops/core/op_builder.h does both).
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace sardonyx::graph {

using Attributes = std::map<std::string, Attribute, std::less<>>;

class Builder {
 public:
  // Nodes go before `before`; at the end when it is nullptr.
  explicit Builder(Graph& graph, Node* before = nullptr) : graph_(graph), before_(before) {}

  // One output, named `name` if given (made unique), else after the operator.
  Value* op(const std::string& op, std::vector<Value*> inputs, Attributes attributes = {},
            const std::string& name = "");
  // Operators of another domain, or with several outputs; a wish of "" leaves that output out.
  Node* node(const std::string& domain, const std::string& op, std::vector<Value*> inputs,
             std::vector<std::string> output_wishes, Attributes attributes = {});
  Value* constant(const std::string& wish, Tensor data);

  Graph& graph() { return graph_; }

 private:
  Graph& graph_;
  Node* before_;
};

}  // namespace sardonyx::graph
