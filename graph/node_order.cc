#include "graph/node_order.h"

#include <algorithm>
#include <functional>
#include <queue>

namespace sardonyx::graph {
namespace {

// Every node left over has an unfinished node that it reads, so walking back must meet a node
// twice.
std::vector<int32_t> find_cycle(const std::vector<std::vector<int32_t>>& reads,
                                const std::vector<int32_t>& waiting) {
  const auto unfinished = [&](int32_t node) { return waiting[node] > 0; };
  int32_t at = 0;
  while (!unfinished(at)) ++at;
  std::vector<int32_t> path;
  std::vector<int32_t> seen_at(reads.size(), -1);
  while (seen_at[at] < 0) {
    seen_at[at] = static_cast<int32_t>(path.size());
    path.push_back(at);
    at = *std::find_if(reads[at].begin(), reads[at].end(), unfinished);
  }
  std::vector<int32_t> cycle(path.begin() + seen_at[at], path.end());
  std::reverse(cycle.begin(), cycle.end());
  return cycle;
}

}  // namespace

NodeOrder order_nodes(const std::vector<std::vector<int32_t>>& reads) {
  const auto count = static_cast<int32_t>(reads.size());
  std::vector<int32_t> waiting(reads.size(), 0);
  std::vector<std::vector<int32_t>> readers(reads.size());
  for (int32_t i = 0; i < count; ++i) {
    waiting[i] = static_cast<int32_t>(reads[i].size());
    for (int32_t from : reads[i]) readers[from].push_back(i);
  }
  std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> ready;
  for (int32_t i = 0; i < count; ++i) {
    if (waiting[i] == 0) ready.push(i);
  }
  NodeOrder result;
  while (!ready.empty()) {
    const int32_t node = ready.top();
    ready.pop();
    result.order.push_back(node);
    for (int32_t reader : readers[node]) {
      if (--waiting[reader] == 0) ready.push(reader);
    }
  }
  result.was_sorted = std::is_sorted(result.order.begin(), result.order.end());
  if (static_cast<int32_t>(result.order.size()) < count) result.cycle = find_cycle(reads, waiting);
  return result;
}

}  // namespace sardonyx::graph
