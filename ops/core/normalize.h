// What `normalize` sees: a node as the file wrote it and the opset it was written for. It rewrites
// the node in place (attributes into inputs, old defaults written out) or replaces it by other
// nodes in front of it. Types are not known yet: normalisation comes before shape inference.
#pragma once

#include <string>

#include "graph/builder.h"
#include "ops/core/op.h"

namespace sardonyx::ops {

class NormalizeContext {
 public:
  NormalizeContext(Node& node, int64_t opset)
      : node_(node), opset_(opset), builder_(*node.graph(), &node) {}

  Node& node() { return node_; }
  int64_t opset() const { return opset_; }
  // Writes nodes in front of the node.
  graph::Builder& b() { return builder_; }

  // Moves an attribute (int, ints, float or floats) into a new constant input at `slot`: int64[n]
  // for integers, float scalar or float[n] for floats. No-op when the attribute is absent.
  void attribute_to_input(const std::string& attribute, int slot);
  // Throws Error "opset N of OP is not supported: REASON" (allowed below opset 7).
  [[noreturn]] void refuse(const std::string& reason) const;

 private:
  Node& node_;
  int64_t opset_;
  graph::Builder builder_;
};

}  // namespace sardonyx::ops
