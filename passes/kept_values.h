// What the nodes of a training graph keep for each other, as positions in the node list: who is
// alive when, and which values could be computed again later instead. Facts only; what is done
// about them is drop_chain's.
#pragma once

#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"
#include "passes/options.h"

namespace sardonyx::passes {

inline constexpr int kNever = std::numeric_limits<int>::max();

// A result with bytes of its own: no view, and not what a state will hold.
struct KeptResult {
  int made = 0, last_use = 0;
  int64_t bytes = 0;
  int candidate = -1;        // index
  std::vector<int> readers;  // candidates that are made of it
};

struct DropCandidate {
  graph::Value* value = nullptr;
  int result = 0;  // index
  int last_forward = 0;
  int first_backward = kNever;  // first reader in the backward pass
  int overwritten = kNever;     // when the first of its operands is
  double work = 0;              // of making it, in operations
  bool cheap = false;           // OpDef::cheap
  std::vector<int> operands;    // results, each once
};

struct KeptValues {
  std::vector<graph::Node*> nodes;
  std::unordered_map<const graph::Node*, int> position;
  int backward = kNever;  // position of the first node of the backward pass
  std::vector<KeptResult> results;
  std::vector<DropCandidate> candidates;  // in the order of the nodes
  std::vector<int64_t> alive;             // bytes at each position, and at the end
  double operations = 0, work = 0;        // of the step; work: with passes over memory
};

KeptValues kept_values(graph::Graph& graph, const RecomputeOptions& options);

}  // namespace sardonyx::passes
