#include "graph/values_behind.h"

#include <unordered_set>

namespace sardonyx::graph {

std::vector<const Value*> values_behind(const std::vector<const Value*>& values) {
  std::vector<const Value*> found, open;
  std::unordered_set<const Value*> seen;
  const auto meet = [&](const Value* value) {
    if (value != nullptr && seen.insert(value).second) open.push_back(value);
  };
  for (const Value* value : values) meet(value);
  while (!open.empty()) {
    const Value* value = found.emplace_back(open.back());
    open.pop_back();
    if (value->producer == nullptr) continue;
    for (const Value* input : value->producer->inputs()) meet(input);
  }
  return found;
}

}  // namespace sardonyx::graph
