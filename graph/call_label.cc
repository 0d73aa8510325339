#include "graph/call_label.h"

#include <fmt/core.h>

#include <unordered_map>

namespace sardonyx::graph {

std::vector<std::string> call_labels(const std::vector<CallSite>& calls) {
  const auto base = [](const CallSite& call) -> const std::string& {
    return call.name.empty() ? call.op : call.name;
  };
  std::unordered_map<std::string, int> count;
  for (const CallSite& call : calls) ++count[base(call)];
  std::vector<std::string> labels;
  labels.reserve(calls.size());
  for (const CallSite& call : calls) {
    const bool unique = count[base(call)] == 1;
    labels.push_back(unique ? base(call) : fmt::format("{}#{}", base(call), call.index));
  }
  return labels;
}

}  // namespace sardonyx::graph
