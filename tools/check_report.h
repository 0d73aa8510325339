// What `sardonyx check` found, and its two forms.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "passes/pass.h"
#include "passes/plan.h"
#include "runtime/config.h"

namespace sardonyx::tools {

struct CheckReport {
  std::string model, producer;
  std::vector<std::string> inputs, outputs;  // "input  float[N,1,28,28]"
  std::vector<int64_t> sample_shape;         // of the first input; -1: open
  int64_t nodes = 0, convolutions = 0, batch_norms = 0, dropouts = 0;
  int64_t batch_norms_in_training_form = 0;
  std::string folded_batch_norms;            // what the export did with others; "": unknown
  std::vector<std::string> unusual_momenta;  // "bn1: 1"

  int64_t baked_rows = -1, batch = 0, rows = 0;  // rows: of a micro-batch
  bool set_batch = false;         // what the command says, and the numbers here are for
  std::string set_batch_problem;  // why it can't, where rows are baked in
  std::vector<passes::ParameterRow> parameters;
  std::vector<passes::UnsupportedNode> unsupported;
  graph::TensorType scores;
  std::optional<passes::MemoryReport> memory;  // when a plan could be made
  std::vector<std::string> notices;
  std::string problem;  // "" when nothing stands in the way

  bool trainable() const { return problem.empty(); }
};

// Inputs, outputs and counts, from the graph as it came.
void describe_graph(const graph::Graph& graph, CheckReport& report);

std::string report_text(const CheckReport& report, const runtime::Flags& flags, bool all);
std::string report_json(const CheckReport& report);

}  // namespace sardonyx::tools
