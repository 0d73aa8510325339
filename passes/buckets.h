// What insert_all_reduce made, read back from the plan: for `inspect --training` and reports.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "passes/plan.h"

namespace sardonyx::passes {

struct BucketFacts {
  std::string name;                  // of the flat tensor
  std::vector<std::string> members;  // values, in their order in memory
  int64_t bytes = 0;
  // Label of the node that completes it; "" when no node does. A region that runs block by block is
  // complete at its end only: then this is its last node.
  std::string ready_after;
  const graph::Node* ready_node = nullptr;  // the same
  int region = -1;                          // of that node, when it runs block by block
};

// In the order in which their sums are started.
std::vector<BucketFacts> buckets(const Plan& plan);

// "bucket0: 8 members, 497704 bytes, ready after conv1 (Conv): dfc2.bias, ...", one line each.
std::string print_buckets(const Plan& plan);

}  // namespace sardonyx::passes
