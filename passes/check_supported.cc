// check_supported: refuses, in one message, every node that is still needed and can't be run.
#include <algorithm>
#include <map>
#include <unordered_set>

#include "graph/values_behind.h"
#include "ops/core/op.h"
#include "passes/pass.h"

namespace sardonyx::passes {

namespace {

using graph::Node;
using graph::Value;
using Kind = UnsupportedNode::Kind;

constexpr size_t kShownFaults = 20;

// Grouped by operator and reason: a file with fifty nodes of one kind gives one line.
std::string list_operators(const std::vector<UnsupportedNode>& missing) {
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> groups;
  for (const UnsupportedNode& node : missing) {
    if (node.kind == Kind::kUnknownOperator) groups[{node.op, node.reason}].push_back(node.node);
  }
  if (groups.empty()) return "";
  std::string text = "this model needs operators that Sardonyx doesn't have:";
  for (const auto& [key, nodes] : groups) {
    text += fmt::format("\n  {} ({} node{}): {}: ", key.first, nodes.size(),
                        nodes.size() == 1 ? "" : "s", key.second);
    for (size_t i = 0; i < nodes.size() && i < 5; ++i) text += (i > 0 ? ", " : "") + nodes[i];
    if (nodes.size() > 5) text += ", ...";
  }
  return text;
}

std::string list_faults(const std::vector<std::string>& faults) {
  std::string text = fmt::format("{} nodes of this model can't be run:", faults.size());
  for (size_t i = 0; i < faults.size() && i < kShownFaults; ++i) {
    text += "\n  ";
    for (const char c : faults[i]) text += c == '\n' ? std::string("\n  ") : std::string(1, c);
  }
  if (faults.size() > kShownFaults) {
    text += fmt::format("\n  ... and {} more", faults.size() - kShownFaults);
  }
  return text;
}

// Names of what the nodes give that `wanted` are computed by.
std::unordered_set<std::string_view> names_behind(const std::vector<Value*>& wanted) {
  std::unordered_set<std::string_view> names;
  for (const Value* value : graph::values_behind({wanted.begin(), wanted.end()})) {
    if (value->producer == nullptr) continue;
    for (const Value* output : value->producer->outputs()) {
      if (output != nullptr) names.insert(output->name);
    }
  }
  return names;
}

}  // namespace

UnsupportedNode unsupported(const Node& node, Kind kind, std::string reason) {
  UnsupportedNode result{node.label(), ops::op_label(node.domain, node.op), std::move(reason), "",
                         kind};
  for (const Value* value : node.outputs()) {
    if (value != nullptr && result.output.empty()) result.output = value->name;
  }
  return result;
}

std::string list_unsupported(const std::vector<UnsupportedNode>& missing) {
  const std::string operators = list_operators(missing);
  std::vector<std::string> faults;
  for (const UnsupportedNode& node : missing) {
    if (node.kind == Kind::kFault) faults.push_back(node.reason);
  }
  if (faults.empty()) return operators;
  const std::string text = faults.size() == 1 ? faults[0] : list_faults(faults);
  return operators.empty() ? text : operators + "\n  besides, " + text;
}

std::vector<UnsupportedNode> needed_and_unsupported(const PassContext& context,
                                                    const std::vector<Value*>& wanted) {
  if (context.unsupported.empty()) return {};
  const std::unordered_set<std::string_view> needed = names_behind(wanted);
  std::vector<UnsupportedNode> missing = context.unsupported;
  std::erase_if(missing,
                [&](const UnsupportedNode& node) { return !needed.contains(node.output); });
  return missing;
}

void require_supported(const PassContext& context, const std::vector<Value*>& wanted) {
  const std::vector<UnsupportedNode> missing = needed_and_unsupported(context, wanted);
  if (!missing.empty()) throw UnsupportedError(missing);
}

bool check_supported(graph::Graph& graph, PassContext& context) {
  std::vector<Value*> wanted = graph.outputs();
  for (const graph::Binding& binding : graph.bindings()) wanted.push_back(binding.next);
  require_supported(context, wanted);
  return false;
}

}  // namespace sardonyx::passes
