// Differences of graphs as text and as JSON (docs/inspect.md has its fields).
#pragma once

#include <string>

#include "tools/graph_diff.h"

namespace sardonyx::tools {

// `a`, `b`: what the two are called.
std::string diff_text(const GraphDiff& diff, const std::string& a, const std::string& b);
std::string diff_json(const GraphDiff& diff, const std::string& a, const std::string& b);

}  // namespace sardonyx::tools
