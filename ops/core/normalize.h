// Normalisation: a node as the file wrote it, for whatever opset, becomes the newest form. A room's
// rule (OpDef::normalize) rewrites the node in place (attributes into inputs, old defaults written
// out), with other nodes in front of it. Types are not known yet: shape inference comes later.
#pragma once

#include <string>

#include "graph/builder.h"
#include "ops/core/op.h"

namespace sardonyx::ops {

// What a room's rule sees.

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

// Brings a node of the user's file to the canonical form. Before and after the room's rule it drops
// the attributes that no file can say and those that the operator doesn't have (any more). Throws
// Error when the operator is private, a required output is left out, or the room refuses. A node of
// an unknown operator, or without outputs, stays as it is.
void normalize_node(Node& node, int64_t opset);

}  // namespace sardonyx::ops
