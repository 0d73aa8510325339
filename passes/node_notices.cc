#include "passes/node_notices.h"

#include <algorithm>

namespace sardonyx::passes {

void NodeNotices::add(const graph::Node& node, const std::string& line) {
  if (line.empty()) return;
  const auto entry = std::ranges::find(entries_, line, &Entry::line);
  if (entry == entries_.end()) {
    entries_.push_back({line, node.label()});
  } else {
    ++entry->others;
  }
}

void NodeNotices::tell(PassContext& context) const {
  for (const Entry& entry : entries_) {
    const std::string others = entry.others == 0 ? ""
                                                 : fmt::format(" and {} other{}", entry.others,
                                                               entry.others == 1 ? "" : "s");
    context.notice(fmt::format("node {}{}: {}", entry.first, others, entry.line));
  }
}

}  // namespace sardonyx::passes
