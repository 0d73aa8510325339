// A number of rows that nothing in a graph can be confused with, for baked_batch.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace sardonyx::passes {

// Integers from here on are no numbers of rows, and no limit to them: "to the end", as exporters
// write it.
inline constexpr int64_t kNoLimit = int64_t{1} << 30;

// The first prime above `least` (at least 100) and above all sizes and integers below kNoLimit in
// the graph's types, attributes and constants, whatever their sign, that divides none of those from
// kNoLimit on. Constants of more than 2^20 elements hold data and aren't looked at.
int64_t prime_above_numbers(const graph::Graph& graph, int64_t least);

}  // namespace sardonyx::passes
