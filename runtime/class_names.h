// What a classifier calls its classes. Labels are never these names: they are places in the list.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace sardonyx::runtime {

// The names of `classes` classes, in the order of their scores, where a file says them: in a
// ZipMap, or in the list that the index of the best score picks from. {"3", "5", "9"}; empty: none
// are known, or they are 0, 1, 2, ... anyway. Of a graph as it was imported.
std::vector<std::string> class_names(const graph::Graph& imported, int64_t classes);

// "3, 5, 9": labels are positions 0..2 in that list. The first six of many.
std::string class_names_str(const std::vector<std::string>& names);

}  // namespace sardonyx::runtime
