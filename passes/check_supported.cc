// check_supported: refuses, in one message, every node that is still needed and can't be run.
#include <map>
#include <unordered_set>

#include "graph/support/error.h"
#include "ops/core/op.h"
#include "passes/pass.h"

namespace sardonyx::passes {

std::string list_unsupported(const std::vector<UnsupportedNode>& missing) {
  // Grouped by operator and reason: a file with fifty nodes of one kind gives one line.
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> groups;
  for (const UnsupportedNode& node : missing) groups[{node.op, node.reason}].push_back(node.node);
  std::string text = "this model needs operators that Sardonyx doesn't have:";
  for (const auto& [key, nodes] : groups) {
    text += fmt::format("\n  {} ({} node{}): {}: ", key.first, nodes.size(),
                        nodes.size() == 1 ? "" : "s", key.second);
    for (size_t i = 0; i < nodes.size() && i < 5; ++i) text += (i > 0 ? ", " : "") + nodes[i];
    if (nodes.size() > 5) text += ", ...";
  }
  return text;
}

bool check_supported(graph::Graph& graph, PassContext& context) {
  std::unordered_set<std::string> alive;
  for (const graph::Node& node : graph.nodes()) alive.insert(node.label());
  std::vector<UnsupportedNode> missing = context.unsupported;
  std::erase_if(missing, [&](const UnsupportedNode& node) { return !alive.contains(node.node); });
  if (!missing.empty()) throw Error(list_unsupported(missing));
  return false;
}

}  // namespace sardonyx::passes
