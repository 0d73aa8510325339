// The operands and results of a node test of the ONNX backend, test_data_set_N/{input,output}_I.pb,
// and its model with some of the operands as constants.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "graph/model.h"
#include "tests/run_cases/kit.h"

namespace sardonyx::cases {

// Operands that are constants of the model instead of being fed.
enum class Known : uint8_t {
  kNothing,
  kIntegers,  // integers and booleans of at most one axis: shapes, axes, indices
  kLists,     // everything of at most one axis: scales and the like, too
  kAll,       // also where elements of a tensor say how large an output is
};

class NodeData {
 public:
  explicit NodeData(const std::filesystem::path& folder);

  const std::vector<graph::Tensor>& outputs() const { return outputs_; }
  std::shared_ptr<const graph::Model> model(const std::filesystem::path& file, Known known) const;
  // What is fed to that model.
  runtime::Batch batch(const graph::Graph& graph, Known known) const;

 private:
  std::vector<graph::Tensor> inputs_, outputs_;
};

// The suite stores bfloat16 as uint16 with the same bits.
graph::Tensor as_declared(const graph::Tensor& tensor, graph::DType declared);

// The data sets of a test.
std::vector<NodeData> data_sets(const std::filesystem::path& folder);

// Sardonyx asks for an operand before the run, or an operand isn't of the shape that the file says.
inline bool wants_constants(const std::string& error) {
  return error.find("must be known before") != std::string::npos ||
         error.find("but one sample of the data has shape") != std::string::npos;
}

// Calls `run` with each of `order` until Sardonyx wants no more operands as constants.
template <class Run>
void with_enough_known(std::initializer_list<Known> order, Run&& run) {
  for (const Known known : order) {
    try {
      return run(known);
    } catch (const Error& error) {
      if (!wants_constants(error.what()) || known == *(order.end() - 1)) throw;
    }
  }
}

}  // namespace sardonyx::cases
