// How Origin::path and the names of a function's weights ("CALL/INNER") name a call of a local
// function, and a node with graphs inside: by the node's name (its operator when it has none) if no
// other of them in that body is named so, else by "NAME#INDEX" with the node's index in file
// order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sardonyx::graph {

struct CallSite {
  std::string name;  // of the node
  std::string op;
  int32_t index = 0;  // in file order
};

// Labels for all calls of one body, in the same order.
std::vector<std::string> call_labels(const std::vector<CallSite>& calls);

}  // namespace sardonyx::graph
