// Which part of a training step each node belongs to: read off the finished graph, for reports. No
// pass decides anything by it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace sardonyx::passes {

enum class Phase : uint8_t {
  kForward,   // up to the loss, with its metrics
  kAgain,     // of the forward pass, computed a second time behind its end
  kBackward,  // made by a gradient rule, or what such nodes need in between
  kSum,  // puts gradients (or statistics) into a bucket, sums it over the replicas, takes it apart
  kUpdate,  // what becomes of the gradients: norms, scale, optimizer; and of running statistics
};

std::string_view phase_name(Phase phase);  // "forward", "again", ...

// One per node, in the order of the node list.
std::vector<Phase> phases(const graph::Graph& graph);

}  // namespace sardonyx::passes
