// A graph as a new ONNX file that other tools open: to look at it, not to go on with it (saving a
// user's model is onnx_export.h).
//
// Every value has its type. States are initializers with their initial values. A binding `state ->
// new value` is an update_binding of a TrainingInfoProto: its `algorithm` stays empty, because
// viewers draw the graph of the model only, and the new value is an output of that graph, where
// ONNX wants it then.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/model.h"
#include "graph/onnx_import.h"

namespace sardonyx::graph {

// A node as the file shows it.
struct NodeForm {
  std::string domain, name, doc;
  std::vector<std::string> left_out;  // attributes
};

struct OnnxForm {
  std::map<std::string, int64_t> opsets;  // domain -> version
  std::string doc;
  std::vector<std::pair<std::string, std::string>> metadata;
  std::function<NodeForm(const Node&)> node;         // empty: as it stands in the graph
  std::function<std::string(const Value&)> remark;   // of an initializer or result; empty: none
  const std::vector<Function>* functions = nullptr;  // that nodes call
  // Says the types of outputs that a graph can't hold: sequences, maps.
  const Model* types_of = nullptr;
  // When the file would be larger, the values of initializers go to a file beside it, `path` with
  // ".data" behind it. Protobuf holds 2 GiB at most.
  size_t inline_limit = (size_t{1} << 31) - (size_t{1} << 24);
};

// Key of the metadata by which a training graph is known that was written to be looked at; its
// value is the file that it was made of.
inline constexpr const char* kTrainingGraphOf = "sardonyx.training_graph_of";

// Atomic, like everything that is written here. Returns the names of the data files: one or none.
std::vector<std::filesystem::path> write_onnx(const Graph& graph, const std::filesystem::path& path,
                                              const OnnxForm& form);
// Where the values go that don't fit in.
std::filesystem::path data_file_of(const std::filesystem::path& path);

}  // namespace sardonyx::graph
