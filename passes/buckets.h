// What insert_all_reduce made, read back from the graph: for `inspect --training` and reports.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace sardonyx::passes {

struct BucketFacts {
  std::string name;                  // of the flat tensor
  std::vector<std::string> members;  // values, in their order in memory
  int64_t bytes = 0;
  std::string ready_after;  // label of the node that completes it; "" when no node does
};

// In the order in which they are complete.
std::vector<BucketFacts> buckets(const graph::Graph& graph);

// "bucket0: 8 members, 497704 bytes, ready after conv1 (Conv): dfc2.bias, ...", one line each.
std::string print_buckets(const graph::Graph& graph);

}  // namespace sardonyx::passes
