// Sizes of a sample that neither the file nor the data say: without them there is no plan.
#pragma once

#include <string>

#include "graph/graph.h"
#include "passes/options.h"

namespace sardonyx::runtime {

// Which input, which of its axes and what to give, of the first input that something reads and
// whose type stays open when the batch is bound and the samples are as `options` say; "": there is
// none. Of a graph as it was imported. Throws Error where the samples don't fit an input.
std::string open_sizes(const graph::Graph& imported, const passes::PipelineOptions& options);

}  // namespace sardonyx::runtime
