#include "tests/run_cases/node_data.h"

#include <onnx/onnx_pb.h>

namespace sardonyx::cases {

namespace fs = std::filesystem;

namespace {

std::vector<graph::Tensor> read_all(const fs::path& folder, const std::string& stem) {
  std::vector<graph::Tensor> tensors;
  for (int i = 0;; ++i) {
    const fs::path path = folder / fmt::format("{}_{}.pb", stem, i);
    if (!fs::exists(path)) return tensors;
    tensors.push_back(read_tensor(path));
  }
}

bool is_known(const graph::Tensor& tensor, Known known) {
  if (known == Known::kNothing || known == Known::kAll) return known == Known::kAll;
  return tensor.rank() <= 1 && (known == Known::kLists || !graph::is_floating(tensor.dtype()));
}

}  // namespace

graph::Tensor as_declared(const graph::Tensor& tensor, graph::DType declared) {
  if (declared != graph::DType::kBFloat16 || tensor.dtype() != graph::DType::kUint16) return tensor;
  return graph::Tensor::borrow(declared, tensor.shape(), tensor.bytes(),
                               std::make_shared<graph::Tensor>(tensor));
}

NodeData::NodeData(const fs::path& folder)
    : inputs_(read_all(folder, "input")), outputs_(read_all(folder, "output")) {}

std::shared_ptr<const graph::Model> NodeData::model(const fs::path& path, Known known) const {
  const auto file = graph::Model::open(path);
  if (known == Known::kNothing) return file;
  onnx::ModelProto model = file->skeleton();
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!is_known(inputs_[i], known)) continue;
    onnx::ValueInfoProto& input = *model.mutable_graph()->mutable_input(static_cast<int>(i));
    // Some data are of another shape than their file declares; a constant has its own.
    input.mutable_type()->mutable_tensor_type()->clear_shape();
    onnx::TensorProto& tensor = *model.mutable_graph()->add_initializer();
    tensor.set_name(input.name());
    tensor.set_data_type(input.type().tensor_type().elem_type());
    for (const int64_t size : inputs_[i].shape()) tensor.add_dims(size);
    const auto bytes = inputs_[i].bytes();
    tensor.set_raw_data(bytes.data(), bytes.size());
  }
  return graph::Model::from_bytes(model.SerializeAsString());
}

runtime::Batch NodeData::batch(const graph::Graph& graph, Known known) const {
  std::vector<const graph::Tensor*> fed;
  for (const graph::Tensor& tensor : inputs_) {
    if (!is_known(tensor, known)) fed.push_back(&tensor);
  }
  runtime::Batch batch;
  for (size_t i = 0; i < graph.inputs().size() && i < fed.size(); ++i) {
    const graph::Value* input = graph.inputs()[i];
    batch.inputs.emplace_back(input->name, as_declared(*fed[i], input->type.dtype));
  }
  return batch;
}

std::vector<NodeData> data_sets(const fs::path& folder) {
  std::vector<NodeData> sets;
  for (int i = 0;; ++i) {
    const fs::path set = folder / fmt::format("test_data_set_{}", i);
    if (!fs::exists(set)) return sets;
    sets.emplace_back(set);
  }
}

}  // namespace sardonyx::cases
