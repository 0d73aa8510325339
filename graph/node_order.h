// Puts nodes of a file into an order in which each comes after the nodes it reads.
#pragma once

#include <cstdint>
#include <vector>

namespace sardonyx::graph {

struct NodeOrder {
  std::vector<int32_t> order;  // node indices; the file's order where it is free to choose
  std::vector<int32_t> cycle;  // one cycle, each node read by the next; empty when there is none
  bool was_sorted = true;
};

// `reads[i]`: the nodes that node i reads, repeats allowed.
NodeOrder order_nodes(const std::vector<std::vector<int32_t>>& reads);

}  // namespace sardonyx::graph
