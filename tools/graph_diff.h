// What differs between two graphs: nodes, initializers and states, inputs, outputs; between two
// files also what stands around the graph. The order of nodes doesn't count, nor how values are
// stored: float_data, raw_data and external data are the same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/model.h"
#include "graph/onnx_import.h"

namespace sardonyx::tools {

// Texts, as people read them; nothing: it isn't there.
struct Change {
  std::string what;
  std::optional<std::string> a, b;
};

// Of two tensors of one type and shape.
struct ValuesDiff {
  int64_t elements = 0;
  int64_t differ = 0;  // bit by bit
  // Largest |a - b|; nothing for text, and where one of two that differ isn't finite.
  std::optional<double> max_abs;
};

struct EntryDiff {
  std::string name;
  std::vector<Change> changes;
  std::optional<ValuesDiff> values;  // of an initializer or state, when they differ
};

// Entries are found by name; a node without a name of its own by its first output.
struct ListDiff {
  size_t a = 0, b = 0;  // entries
  std::vector<std::string> added, removed;
  std::vector<EntryDiff> changed;
  size_t count() const { return added.size() + removed.size() + changed.size(); }
};

struct GraphDiff {
  std::vector<Change> facts;  // name and batch axis; of files: versions, producer, metadata
  ListDiff nodes, initializers, inputs, outputs, functions;
  bool equal() const;
};

GraphDiff diff(const graph::Graph& a, const graph::Graph& b);
GraphDiff diff(const graph::Model& model_a, const graph::ImportedModel& a,
               const graph::Model& model_b, const graph::ImportedModel& b);

// CHECK: same type and shape.
ValuesDiff diff_values(const graph::Tensor& a, const graph::Tensor& b);

}  // namespace sardonyx::tools
