// Products that read an operand as it is stored, in place of a Transpose in front of them.
#pragma once

#include "ops/core/op.h"

namespace sardonyx::ops {

// The operand of a MatMul under the Transpose of the last two axes that makes its right operand;
// nullptr: there is none, or the node is something else.
Value* turned_right_operand(const Node& node);

// Lets the MatMul read that operand itself. The Transpose stays for its other readers, if any.
// CHECK: there is one.
void read_turned_right_operand(graph::Graph& graph, Node& node);

}  // namespace sardonyx::ops
