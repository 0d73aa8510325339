// The one-node graph of an OpCase, for those who try kernels on it: op_tester.cc,
// op_tester_gradient.cc and tests/cuda/kernel_tester.cc.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "tests/support/op_tester.h"

namespace sardonyx::test {

// The symbol that carries_batch() looks for.
inline constexpr const char* kBatchSymbol = "N";
// Rows of a batch beside those of the case: more than one block of lanes, the last one short.
inline constexpr int64_t kOtherRows = 19;

struct OpGraph {
  std::unique_ptr<graph::Graph> graph;
  ops::Node* node = nullptr;
  std::vector<Tensor> inputs;  // undefined: left out
};

// Values of the inputs in a run with `dtype` floats; data inputs get `rows` rows (-1: as given). In
// a bfloat16 run those are float that OpDef::narrow_inputs leaves out.
std::vector<Tensor> input_values(const OpCase& c, DType dtype, int64_t rows);
// Builds and infers. Throws what the shape rule throws.
OpGraph build(const OpCase& c, const std::vector<Tensor>& inputs);

Tolerance tolerance_for(const OpCase& c, DType run);
// Where the reference kernel doesn't give what the case expects.
std::vector<std::string> expected_faults(const OpCase& c);

// What an accumulating kernel starts from, and the sum of that and what it adds.
Tensor start_numbers(const ops::TensorType& type);
Tensor sum_of(const Tensor& a, const Tensor& b);
// The accumulate input never reaches a kernel (RunContext::accumulate stands for it).
void leave_accumulator_out(const ops::Node& node, std::vector<Tensor>& inputs,
                           ops::KernelRequest& request);

std::vector<std::string> gradient_faults(const OpCase& c);
// The nodes that the gradient rule writes in a run with `dtype` floats, with their operands and
// what the reference kernels make of them.
using NodeVisitor = std::function<void(const ops::Node& node, const std::vector<Tensor>& inputs,
                                       const std::vector<Tensor>& outputs)>;
void for_gradient_nodes(const OpCase& c, DType dtype, const NodeVisitor& visit);

}  // namespace sardonyx::test
