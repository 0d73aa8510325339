// The text form of a graph: ONNX text style, extended where that style can't say it (quoted names,
// node names, inf/nan, layouts, states and bindings). `parse` reads everything that `print` writes:
//
//   <ir_version: 8, opset_import: ["" : 13, "sardonyx" : 1], batch: N>
//   g (float[N:4,3] x) => (float[N:4,2] y)
//   <float[2] k = {1, 2.5}, state(parameter) float[3,2] w = {...}, state(optimizer) float[3,2] m>
//   {
//     y = MatMul(x, w)             # float[N:4,2]
//     [dw of matmul 7] dw = MatMul<transA = 1>(x, dy)
//     w.1, m.1 = sardonyx.SGD<momentum = 0.9>(w, dw, m, started, lr, scale)
//     w := w.1
//     m := m.1
//   }
//
// Names that are no identifiers are quoted, [brackets] hold a node's name and, after "of", its
// forward node; "" is an optional operand left out; the comment after a node gives the types of its
// outputs and is read back. Attribute floats are float32 decimals, with the suffix d when only a
// double holds them. The grammar is in graph/parse.h.
#pragma once

#include <functional>
#include <string>

#include "graph/graph.h"

namespace sardonyx::graph {

struct PrintOptions {
  int64_t max_elements = -1;  // constants with more elements print as {...}; -1: print all
  bool types = true;          // "# float[N,4]" after each node; without, `parse` finds no types
  bool origins = false;       // "# from conv1.weight" comments
  // Comments of those who know more about a node: a line in front of it, and behind its types. ""
  // is none.
  std::function<std::string(const Node&)> heading = {}, remark = {};
};

std::string print(const Graph& graph, const PrintOptions& options = {});
// One node as it stands in `print`, without types, indent and newline.
std::string print(const Node& node);
std::string print(const Attribute& attribute);

}  // namespace sardonyx::graph
