// check_supported: refuses, in one message, every node that is still needed and can't be run.
#include <map>
#include <unordered_set>

#include "graph/support/error.h"
#include "ops/core/op.h"
#include "passes/pass.h"

namespace sardonyx::passes {

bool check_supported(graph::Graph& graph, PassContext& context) {
  std::unordered_set<std::string> alive;
  for (const graph::Node& node : graph.nodes()) alive.insert(node.label());
  // Grouped by operator and reason: a file with fifty nodes of one kind gives one line.
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> groups;
  for (const UnsupportedNode& missing : context.unsupported) {
    if (alive.contains(missing.node)) groups[{missing.op, missing.reason}].push_back(missing.node);
  }
  if (groups.empty()) return false;
  std::string text;
  for (const auto& [key, nodes] : groups) {
    text += fmt::format("\n  {} ({} node{}): {}: ", key.first, nodes.size(),
                        nodes.size() == 1 ? "" : "s", key.second);
    for (size_t i = 0; i < nodes.size() && i < 5; ++i) text += (i > 0 ? ", " : "") + nodes[i];
    if (nodes.size() > 5) text += ", ...";
  }
  throw Error("this model needs operators that Sardonyx doesn't have:{}", text);
}

}  // namespace sardonyx::passes
