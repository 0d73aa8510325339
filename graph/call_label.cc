#include "graph/call_label.h"

#include <fmt/core.h>

#include <unordered_map>

namespace sardonyx::graph {

std::vector<std::string> call_labels(const std::vector<CallSite>& calls) {
  std::unordered_map<std::string, int> count;
  for (const CallSite& call : calls) ++count[call.name];
  std::vector<std::string> labels;
  labels.reserve(calls.size());
  for (const CallSite& call : calls) {
    const bool unique = !call.name.empty() && count[call.name] == 1;
    labels.push_back(
        unique ? call.name
               : fmt::format("{}#{}", call.name.empty() ? call.op : call.name, call.index));
  }
  return labels;
}

}  // namespace sardonyx::graph
