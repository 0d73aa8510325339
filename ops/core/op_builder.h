// Writes typed nodes: like graph::Builder, but every node's output types are inferred at once, so
// that gradient rules and passes may ask the type of what they just made.
#pragma once

#include <string>
#include <vector>

#include "graph/builder.h"
#include "ops/core/op.h"

namespace sardonyx::ops {

class OpBuilder {
 public:
  // Nodes go before `before` (nullptr: at the end).
  explicit OpBuilder(graph::Graph& graph, Node* before = nullptr)
      : graph_(graph), before_(before) {}

  // Standard operator with one output. `wish`: name of the output, made unique; default: after the
  // operator.
  Value* op(const std::string& op, std::vector<Value*> inputs, graph::Attributes attributes = {},
            const std::string& wish = "");
  // Operator of the sardonyx domain with one output.
  Value* own(const std::string& op, std::vector<Value*> inputs, graph::Attributes attributes = {},
             const std::string& wish = "");
  // Any operator; "" in `wishes` leaves an output out.
  Node* node(const std::string& domain, const std::string& op, std::vector<Value*> inputs,
             std::vector<std::string> wishes, graph::Attributes attributes = {});

  Value* constant(Tensor data, const std::string& wish = "const");
  Value* ints(const std::vector<int64_t>& values);  // int64[n]
  Value* scalar(DType dtype, double value);         // rank 0
  // A constant of the static shape of `like`, filled with one value.
  Value* filled_like(const Value* like, double value);

  // Names of outputs made from now on start with this ("grad/").
  void set_prefix(std::string prefix) { prefix_ = std::move(prefix); }
  // Stored in Node::forward_node of nodes made from now on.
  void set_forward_node(std::string name) { forward_node_ = std::move(name); }

  graph::Graph& graph() { return graph_; }

 private:
  graph::Graph& graph_;
  Node* before_;
  std::string prefix_;
  std::string forward_node_;
};

}  // namespace sardonyx::ops
