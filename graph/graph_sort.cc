// The topological sort: Kahn's algorithm that always takes the ready node which stands first in the
// list.
#include <algorithm>
#include <queue>

#include "graph/graph.h"
#include "graph/support/error.h"

namespace sardonyx::graph {
namespace {

// A cycle among nodes that all wait for another waiting node: walk up producers until one comes
// again.
std::vector<const Node*> find_cycle(const Node* start, const std::vector<int64_t>& waiting,
                                    const std::unordered_map<const Node*, int64_t>& index) {
  std::unordered_map<const Node*, size_t> seen;
  std::vector<const Node*> path;
  const Node* node = start;
  while (seen.emplace(node, path.size()).second) {
    path.push_back(node);
    for (const Value* input : node->inputs()) {
      if (input == nullptr || input->producer == nullptr) continue;
      if (waiting[index.at(input->producer)] > 0) {
        node = input->producer;
        break;
      }
    }
  }
  path.erase(path.begin(), path.begin() + static_cast<int64_t>(seen.at(node)));
  std::reverse(path.begin(), path.end());  // now in the direction of the data
  return path;
}

[[noreturn]] void throw_cycle(const std::string& graph, const std::vector<const Node*>& cycle) {
  constexpr size_t kShown = 20;
  std::string names;
  for (size_t i = 0; i < std::min(cycle.size(), kShown); ++i) {
    names += "\n  " + cycle[i]->label();
  }
  if (cycle.size() > kShown) names += fmt::format("\n  ... and {} more", cycle.size() - kShown);
  throw Error(
      "graph '{}' has a cycle; each of these nodes reads the one before it, the first reads the "
      "last:{}",
      graph, names);
}

}  // namespace

void Graph::sort() {
  std::vector<Node*> nodes;
  nodes.reserve(nodes_.size());
  bool sorted = true;
  for (Node& node : nodes_) node.order_ = -1;
  for (Node& node : nodes_) {
    for (const Value* input : node.inputs_) {
      sorted = sorted &&
               (input == nullptr || input->producer == nullptr || input->producer->order_ >= 0);
    }
    node.order_ = static_cast<int64_t>(nodes.size());
    nodes.push_back(&node);
  }
  if (sorted) return;

  std::vector<int64_t> waiting(nodes.size(), 0);  // inputs whose producer is not placed yet
  std::priority_queue<int64_t, std::vector<int64_t>, std::greater<>> ready;
  for (const Node* node : nodes) {
    for (const Value* input : node->inputs_) {
      waiting[node->order_] += input != nullptr && input->producer != nullptr ? 1 : 0;
    }
    if (waiting[node->order_] == 0) ready.push(node->order_);
  }
  std::vector<Node*> placed;
  placed.reserve(nodes.size());
  while (!ready.empty()) {
    Node* node = nodes[ready.top()];
    ready.pop();
    placed.push_back(node);
    for (const Value* output : node->outputs_) {
      if (output == nullptr) continue;
      for (const Use& use : output->uses()) {
        if (--waiting[use.node->order_] == 0) ready.push(use.node->order_);
      }
    }
  }
  if (placed.size() != nodes.size()) {
    std::unordered_map<const Node*, int64_t> index;
    for (const Node* node : nodes) index.emplace(node, node->order_);
    const auto stuck =
        std::find_if(waiting.begin(), waiting.end(), [](int64_t count) { return count > 0; });
    throw_cycle(name, find_cycle(nodes[stuck - waiting.begin()], waiting, index));
  }
  for (Node* node : placed) nodes_.splice(nodes_.end(), nodes_, node->self_);
}

}  // namespace sardonyx::graph
