// The one-node graph of an OpCase, for op_tester.cc and op_tester_gradient.cc only.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "tests/support/op_tester.h"

namespace sardonyx::test {

// The symbol that carries_batch() looks for.
inline constexpr const char* kBatchSymbol = "N";

struct OpGraph {
  std::unique_ptr<graph::Graph> graph;
  ops::Node* node = nullptr;
  std::vector<Tensor> inputs;  // undefined: left out
};

// Values of the inputs in a run with `dtype` floats; data inputs get `rows` rows (-1: as given).
std::vector<Tensor> input_values(const OpCase& c, DType dtype, int64_t rows);
// Builds and infers. Throws what the shape rule throws.
OpGraph build(const OpCase& c, const std::vector<Tensor>& inputs);

std::vector<std::string> gradient_faults(const OpCase& c);

}  // namespace sardonyx::test
