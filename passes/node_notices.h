// What the user should know about nodes: a line that many nodes share is said once.
#pragma once

#include <string>
#include <vector>

#include "passes/pass.h"

namespace sardonyx::passes {

class NodeNotices {
 public:
  // Nothing happens when `line` is empty.
  void add(const graph::Node& node, const std::string& line);
  // "node bn1 (BatchNormalization) and 3 others: LINE", in the order of the first nodes.
  void tell(PassContext& context) const;

 private:
  struct Entry {
    std::string line, first;
    int others = 0;
  };
  std::vector<Entry> entries_;
};

}  // namespace sardonyx::passes
