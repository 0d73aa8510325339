// A graph inside a node (a branch of If), which an attribute holds as the bytes of the file, as a
// Graph of its own; and the attributes of a function call put into such bytes.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "graph/attribute.h"
#include "graph/graph.h"

namespace sardonyx::graph {

// The inputs are the values that it reads from the graphs around it, in the order of
// `outer_values`, all of undefined type; initializers and nodes have the origins of a main graph,
// without a path. Throws Error: all structural faults, tensors in external files, inputs of its
// own (a body of Loop or Scan).
std::unique_ptr<Graph> import_subgraph(const GraphAttribute& attribute,
                                       const std::map<std::string, int64_t>& opsets);

// The attribute of a call, or the function's default; nullptr when there is none.
using FindAttribute = std::function<const Attribute*(const std::string& name)>;

// Inside a function body: the same graph with every reference to an attribute of the function
// replaced by what it refers to, at any depth; an attribute that refers to nothing is left out.
GraphAttribute bind_references(const GraphAttribute& attribute, const FindAttribute& find);

// All graphs that the node holds, by the name of the attribute; empty for most nodes.
std::map<std::string, const GraphAttribute*> subgraphs_of(const Node& node);

}  // namespace sardonyx::graph
