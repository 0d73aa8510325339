// The one owner of generated names: deterministic, so that golden graphs and checkpoints don't rot.
// `fresh(graph, "grad/w")` is "grad/w", or "grad/w.1", "grad/w.2", ... when taken.
#pragma once

#include <string>
#include <string_view>

#include "graph/graph.h"

namespace sardonyx::graph {

// The smallest free number; an empty wish counts as "value". Cheap for many equal wishes. Two
// threads must not ask the same graph at once.
std::string fresh_name(const Graph& graph, std::string_view wish);

// Up to `limit` of `candidates` closest to `name` (edit distance, then substring): for "did you
// mean" lines. Empty when none is near.
std::vector<std::string> near_names(std::string_view name,
                                    const std::vector<std::string>& candidates, size_t limit = 3);
// Those of `candidates` that `word` may be a slip of the hand for: the same first letter and at
// most two slips (one in four or five letters, none in fewer). For vocabularies whose words differ
// by little, where near_names would offer another thing.
std::vector<std::string> misspelt(std::string_view word,
                                  const std::vector<std::string>& candidates);
// Shell-style glob over whole names: * and ? (slashes are ordinary characters).
bool glob_match(std::string_view pattern, std::string_view name);

}  // namespace sardonyx::graph
