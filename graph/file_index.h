// Where nodes, initializers and functions stand in the bytes of a model file, and what an Origin
// points at. Internal to saving.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"
#include "graph/model.h"
#include "graph/wire.h"

namespace sardonyx::graph {

struct NodePlace {
  wire::Span span;
  std::string name;
  std::string op;   // with the overload, as callee_name gives it
  int callee = -1;  // index of the local function that it calls
  std::vector<std::string> inputs;
  std::map<std::string, int> graphs;  // attribute -> index in FileIndex::subgraphs
};

struct BodyPlace {
  wire::Span span;  // content of the graph or function
  std::vector<NodePlace> nodes;
  // Calls of local functions by their unique label (graph/call_label.h): the node; and graphs
  // inside nodes by "LABEL/ATTRIBUTE": ~k for FileIndex::subgraphs[k].
  std::map<std::string, int32_t, std::less<>> calls;
  std::unordered_map<std::string, wire::Span> initializers;  // none in a function
};

struct FileIndex {
  explicit FileIndex(const Model& model);

  BodyPlace main;
  std::vector<BodyPlace> functions;
  std::vector<BodyPlace> subgraphs;  // inside nodes, at any depth
  // How many call nodes of the whole file, graphs inside nodes included, name each function.
  std::vector<int64_t> call_sites;

  // The calls that `path` leads through, as BodyPlace::calls tells them, first in the main graph,
  // then in each body. Throws Error when the path leads nowhere or is ambiguous.
  std::vector<int32_t> resolve(const std::string& path) const { return resolve(main, path); }
  std::vector<int32_t> resolve(const BodyPlace& from, const std::string& path) const;
  // The body reached by these calls.
  const BodyPlace& body_of(const std::vector<int32_t>& calls) const;
  const BodyPlace& body_behind(const BodyPlace& body, int32_t call) const;
  const NodePlace& node_at(const std::vector<int32_t>& calls, int32_t node) const;
};

}  // namespace sardonyx::graph
