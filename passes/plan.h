// The plan: what the executor walks. Immutable once made.
//
// A plan is a list of regions. A region runs its steps either once over the whole batch (blocks ==
// 1), or per block of images and per thread, depth-first: each thread takes its share of the blocks
// and runs all steps on one block before the next. In a blocked region
//  * values that carry the batch and stay inside are local: one block's worth per thread;
//  * values that carry the batch and cross the border are cut along axis 0 (`block_stride`);
//  * sums over rows (weight gradients, loss sums) go to a per-thread partial, and the region's end
//  adds the
//    partials in thread order, so the result depends on the number of threads and never on timing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "ops/core/kernel.h"

namespace sardonyx::passes {

enum class Space : uint8_t {
  kNone,      // operand left out
  kState,     // offset into the state memory shared by all plans of a session
  kArena,     // offset into the replica's arena
  kLocal,     // offset into the thread's part of the region's local memory
  kConstant,  // index into Plan::constants
  kInput,     // index into Plan::inputs
};

struct Location {
  Space space = Space::kNone;
  size_t offset = 0;        // bytes, or an index
  size_t block_stride = 0;  // bytes from one block to the next (values cut along the batch)
};

struct Step {
  const graph::Node* node = nullptr;  // for names and traces
  const ops::KernelDef* def = nullptr;
  std::unique_ptr<ops::Kernel> kernel;
  std::vector<Location> inputs, outputs;
  std::vector<graph::TensorType> output_types;
  size_t workspace_offset = 0;  // in the arena, or in the local memory of a blocked region
  size_t workspace_bytes = 0;
  size_t alive_bytes = 0;  // of the arena, while it runs; of its whole region where that is blocked
  bool accumulate = false;
  double flops = 0;  // of one run of this step, for reports
};

// target (+= or =) sum over threads of the partials.
struct Reduction {
  Location target;
  size_t partial_offset = 0;  // in local memory
  size_t count = 0;           // elements
  graph::DType dtype = graph::DType::kFloat32;
  bool accumulate = false;  // target keeps what it holds
};

struct Region {
  int64_t blocks = 1;
  int64_t block_rows = 0;        // rows of a full block (the whole batch when blocks == 1)
  int64_t tail_rows = 0;         // rows of the last block when it is short, else 0
  std::vector<Step> steps;       // for a full block
  std::vector<Step> tail_steps;  // the same steps made for tail_rows
  std::vector<Reduction> sums;
  size_t local_offset =
      0;  // in the arena: thread t's local memory starts at local_offset + t * local_bytes
  size_t local_bytes = 0;
  bool blocked() const { return blocks > 1 || local_bytes > 0; }
};

// The memory of states, shared by all plans of a session: a state's place never moves.
class StateTable {
 public:
  struct Entry {
    std::string name;
    graph::TensorType type;
    graph::StateRole role = graph::StateRole::kNone;
    graph::Tensor initial;  // undefined: zeros
    graph::Origin origin;
    size_t offset = 0;
  };
  // Adds the states of a graph that are not known yet. Throws InternalError when a known one has
  // another type.
  void add(const graph::Graph& graph);
  const Entry* find(std::string_view name) const;  // nullptr when unknown
  const std::vector<Entry>& entries() const { return entries_; }
  size_t bytes() const { return bytes_; }

 private:
  std::vector<Entry> entries_;
  std::map<std::string, size_t, std::less<>> index_;
  size_t bytes_ = 0;
};

struct PlanInput {
  std::string name;
  graph::TensorType type;
};

struct PlanOutput {
  std::string name;
  graph::TensorType type;
  Location location;
};

// A binding whose result doesn't already stand in the state's memory.
struct StateCopy {
  Location from;
  size_t state_offset = 0;
  size_t bytes = 0;
};

// Bytes of the arena that are taken during a part of the step: by values (several when they share
// them), by the workspace of a node, or by the threads' own memory in a blocked region.
struct ArenaSpan {
  size_t offset = 0, bytes = 0;
  int first = 0, last = 0;  // positions in the node list, inclusive; last may be its end
  std::vector<const graph::Value*> values;
  const graph::Node* workspace_of = nullptr;
  int region = -1;
};

struct MemoryReport {
  size_t state_bytes = 0;
  size_t arena_bytes = 0;           // planned: one arena for everything transient
  size_t liveness_bound_bytes = 0;  // max over steps of the bytes that must be alive
  size_t sum_bytes = 0;             // without any reuse
  std::string peak_node;            // where the bound is reached
};

struct Plan {
  std::unique_ptr<graph::Graph> graph;  // the lowered graph: layouts and Reorder nodes included
  int64_t batch = 0;
  std::vector<Region> regions;
  std::vector<PlanInput> inputs;  // those that something reads
  std::vector<PlanOutput> outputs;
  std::vector<graph::Tensor> constants;
  std::vector<StateCopy> copies;
  size_t arena_bytes = 0;
  std::vector<ArenaSpan> arena;  // for reports
  int threads = 1;
  MemoryReport memory;
  std::map<std::string, std::string> kernels;  // "Conv -> y" (operator, first output), kernel
  std::vector<std::string> notices;            // one line each, for the user
  std::vector<std::string> remarks;            // likewise, for who looks at the plan

  int input_index(std::string_view name) const;   // -1 when unknown
  int output_index(std::string_view name) const;  // -1 when unknown
  int64_t steps() const;                          // of all regions
  int64_t blocked_regions() const;                // those that run block by block
};

// Human-readable, in a few lines: steps, memory, and what passes saved.
std::string summary(const Plan& plan);
// What the states are, as far as there are some: "parameters, statistics, state of the optimizer".
std::string states_in_words(const Plan& plan);
// Human-readable: regions, steps with kernels, locations. `inspect --training` shows both.
std::string print(const Plan& plan);

}  // namespace sardonyx::passes
