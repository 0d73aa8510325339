// What `sardonyx check` found; check_text.h and check_json.h are its two forms.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "passes/pass.h"
#include "passes/plan.h"
#include "runtime/config.h"
#include "runtime/open_sizes.h"
#include "tools/largest_batch.h"
#include "tools/node_needs.h"

namespace sardonyx::tools {

// Tensors of one role that enter the network the same way.
struct ParameterGroup {
  using Role = passes::ParameterRow::Role;
  Role role = Role::kConstant;
  std::string kind;  // the operator ("Conv"), or why it is constant ("integer", "unused")
  int64_t tensors = 0, elements = 0;
  std::vector<std::string> patterns;  // of their names, digits as *, the most frequent first
};

struct MemoryFacts {
  passes::MemoryReport planned;  // of one replica
  std::string states;            // what they are
  std::string peak;              // where it is reached, in words of the file
  int64_t budget_bytes = 0;      // of one replica
  std::string budget_owner;      // "this machine has", "--memory-budget allows"
  std::optional<LargestBatch> largest;
};

struct CheckReport {
  std::string model, producer;
  std::vector<std::string> inputs, outputs;                             // "input  float[N,1,28,28]"
  std::vector<std::pair<std::string, graph::TensorType>> output_types;  // as declared
  std::vector<int64_t> sample_shape;  // of the first input; -1: open
  bool sample_ranked = false;         // whether that is known at all
  graph::DType sample_dtype = graph::DType::kUndefined;
  std::vector<std::pair<std::string, graph::TensorType>> fed;  // with samples, as far as known
  graph::TensorType fed_labels;  // of an input of the file that takes labels; undefined: none does
  runtime::SampleSizes sample;   // as flags give it
  std::vector<runtime::OpenInput> open;  // inputs with sizes that only data will tell
  bool undecided = false;                // as long as they are: `problem` says that
  int64_t nodes = 0, opset = 0, convolutions = 0, batch_norms = 0, dropouts = 0;
  int64_t batch_norms_in_training_form = 0;
  std::string folded_batch_norms;            // what the export did with others; "": unknown
  int64_t folded_count = 0;                  // of them; 0: unknown
  bool names_dropout = false;                // the file's names speak of one
  std::string dropout_advice;                // what keeps them in an export; "": unknown
  std::vector<std::string> unusual_momenta;  // "bn1: 1"

  int64_t baked_rows = -1, batch = 0, rows = 0;  // rows: of a micro-batch
  bool set_batch = false;         // what the command says, and the numbers here are for
  bool set_batch_known = false;   // whether it works; not where the file is refused in any case
  std::string set_batch_problem;  // why it doesn't, where that alone is in the way
  int64_t replicas = 1;
  std::vector<passes::ParameterRow> parameters;
  std::vector<ParameterGroup> groups;
  std::vector<passes::UnsupportedNode> unsupported;
  std::vector<Need> needs;  // one per unsupported node
  graph::TensorType scores;
  std::vector<std::string> class_names;  // of the file, where they are others than 0, 1, 2, ...
  bool loss_assumed = false;             // no flag names it
  bool can_be_filled = false;            // with --init all would be well
  bool too_large = false;                // the batch that was asked for doesn't fit
  std::optional<MemoryFacts> memory;     // when a plan could be made
  std::vector<std::string> tied;         // "'w' is read by 2 nodes"
  std::vector<std::string> near_misses;
  std::vector<std::string> notices;
  std::string problem;  // "" when nothing stands in the way

  bool trainable() const { return problem.empty(); }
  bool demands_rows() const { return baked_rows > 0 && !set_batch; }
};

// Inputs, outputs and counts, from the graph as it came.
void describe_graph(const graph::Graph& graph, CheckReport& report);
// Groups of parameters and tied ones. `imported`: the graph as it came, with the nodes of the file.
void describe_parameters(const graph::Graph& imported, CheckReport& report);
// `graph`: as far as the preparation came.
void find_near_misses(const graph::Graph& imported, const graph::Graph& graph,
                      const runtime::Flags& flags, CheckReport& report);
// Where a plan needs the most memory, said with nodes of the file.
std::string peak_in_words(const passes::Plan& plan);

const char* role_word(passes::ParameterRow::Role role);  // "trainable", in text and JSON

}  // namespace sardonyx::tools
