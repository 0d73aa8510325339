// Sizes of a sample that neither the file nor the data say: without them there is no plan.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "passes/options.h"

namespace sardonyx::runtime {

// Sizes of one sample, without the batch, by the name of an input; "": the model's first.
using SampleSizes = std::map<std::string, std::vector<int64_t>>;

// An input that something reads and whose type stays open when the batch is bound and the samples
// are as the options say.
struct OpenInput {
  std::string name;
  graph::TensorType type;        // as in the file
  std::vector<int> axes;         // those that are open; unranked: none is listed
  bool first = false;            // of the model
  bool follows = false;          // the sizes of one before it hold for it: the same symbols
  std::vector<int64_t> made_up;  // sizes of a sample that might be; empty: none are known to work
};

// Of a graph as it was imported. `guess`: which sizes are made up, below kGuesses. Throws Error
// where the samples don't fit an input.
inline constexpr int kGuesses = 4;
std::vector<OpenInput> open_inputs(const graph::Graph& imported,
                                   const passes::PipelineOptions& options, int guess = 0);

// "axis 2 (H), axis 3 (W) of 'x'"
std::string open_axes_str(const OpenInput& input);
// Values of --input: "20", "ids=20".
std::vector<std::string> sample_flags(const SampleSizes& sizes);
// Those that would close them, as far as `made_up` is what samples have; without it, with the names
// of axes in place of their sizes.
std::vector<std::string> sample_flags(const std::vector<OpenInput>& inputs);
// What these flags mean: "if seq is 20; that holds for 'mask', too".
std::string made_up_str(const std::vector<OpenInput>& inputs);

// Which input, which of its axes and what to give; "": all sizes are known. Throws Error as above.
std::string open_sizes(const graph::Graph& imported, const passes::PipelineOptions& options);

}  // namespace sardonyx::runtime
