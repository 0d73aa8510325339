// The end of inlining, of a function's body as of a branch: an output of the node that goes becomes
// a value of the graph around it.
#pragma once

#include "graph/graph.h"

namespace sardonyx::passes {

enum class MadeBy : uint8_t { kBody, kOutside };

// Output `slot` of `node`, which is then left out, is `inner` from now on. Its name goes over to
// what the body made, since graph outputs and users refer to it; what the body only hands on keeps
// the name it has outside, and a graph output then has an Identity in between.
void hand_over(graph::Node& node, int slot, graph::Value* inner, MadeBy made_by);

}  // namespace sardonyx::passes
