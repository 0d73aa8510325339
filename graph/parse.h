// Reads the text form written by print.h. Throws Error with line, column, found and expected.
#pragma once

#include <memory>
#include <string_view>

#include "graph/graph.h"

namespace sardonyx::graph {

std::unique_ptr<Graph> parse(std::string_view text);

}  // namespace sardonyx::graph
