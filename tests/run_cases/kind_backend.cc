// A node test of the ONNX backend: model.onnx and test_data_set_N/{input_i,output_i}.pb.
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <filesystem>

#include "graph/onnx_import.h"
#include "tests/run_cases/kit.h"

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

// The suite stores bfloat16 as uint16 with the same bits.
graph::Tensor as_declared(const graph::Tensor& tensor, graph::DType declared) {
  if (declared != graph::DType::kBFloat16 || tensor.dtype() != graph::DType::kUint16) return tensor;
  return graph::Tensor::borrow(declared, tensor.shape(), tensor.bytes(),
                               std::make_shared<graph::Tensor>(tensor));
}

// What is expected in a narrow type was rounded to it at every step, what Sardonyx computes wasn't:
// two units in the last place.
test::Tolerance tolerance_of(graph::DType expected) {
  const double narrow = expected == graph::DType::kBFloat16  ? 0x1p-6
                        : expected == graph::DType::kFloat16 ? 0x1p-9
                                                             : 0;
  return {std::max(1e-3, narrow), 1e-7};
}

class DataSet {
 public:
  DataSet(const Task& task, const fs::path& folder)
      : task_(task), inputs_(read_all(folder, "input")), outputs_(read_all(folder, "output")) {}

  void run() {
    // Operands that Sardonyx wants to know before it runs: first shapes, axes, scales and the like,
    // then also those whose elements say how large an output is.
    for (const Known known : {Known::kNothing, Known::kLists}) {
      try {
        return run_model(known);
      } catch (const Error& error) {
        if (std::string(error.what()).find("must be known before") == std::string::npos) throw;
      }
    }
    run_model(Known::kAll);
  }

 private:
  enum class Known : uint8_t { kNothing, kLists, kAll };

  static bool is_known(const graph::Tensor& tensor, Known known) {
    return known == Known::kAll || (known == Known::kLists && tensor.rank() <= 1);
  }

  // The model with what is known as initializers.
  std::shared_ptr<const graph::Model> with_constants(Known known) const {
    const auto file = graph::Model::open(task_.model());
    if (known == Known::kNothing) return file;
    onnx::ModelProto model = file->skeleton();
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (!is_known(inputs_[i], known)) continue;
      const onnx::ValueInfoProto& input = model.graph().input(static_cast<int>(i));
      onnx::TensorProto& tensor = *model.mutable_graph()->add_initializer();
      tensor.set_name(input.name());
      tensor.set_data_type(input.type().tensor_type().elem_type());
      for (const int64_t size : inputs_[i].shape()) tensor.add_dims(size);
      const auto bytes = inputs_[i].bytes();
      tensor.set_raw_data(bytes.data(), bytes.size());
    }
    return graph::Model::from_bytes(model.SerializeAsString());
  }

  void run_model(Known known) const {
    const std::shared_ptr<const graph::Model> model = with_constants(known);
    runtime::SessionOptions options = plain_options(task_);
    options.pipeline.respect_training_mode = true;  // the file is meant as it stands
    std::vector<const graph::Tensor*> fed;
    for (const graph::Tensor& tensor : inputs_) {
      if (!is_known(tensor, known)) fed.push_back(&tensor);
    }
    runtime::Batch batch;
    const graph::ImportedModel file = graph::import_model(model);
    for (size_t i = 0; i < file.graph->inputs().size() && i < fed.size(); ++i) {
      const graph::Value* input = file.graph->inputs()[i];
      batch.inputs.emplace_back(input->name, as_declared(*fed[i], input->type.dtype));
    }
    describe(options, batch);
    runtime::Session session(model, options);
    check(session.forward(batch, passes::Mode::kTrain));
  }

  void check(const NamedTensors& got) const {
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (i >= got.size()) throw Mismatch("output {} is missing", i);
      const graph::Tensor want = as_declared(outputs_[i], got[i].second.dtype());
      if (const auto difference =
              test::difference(got[i].second, want, tolerance_of(want.dtype()))) {
        throw Mismatch("output '{}': {}", got[i].first, *difference);
      }
    }
  }

  const Task& task_;
  std::vector<graph::Tensor> inputs_, outputs_;
};

}  // namespace

void run_node_test(Task& task) {
  for (int i = 0;; ++i) {
    const fs::path folder = task.folder / fmt::format("test_data_set_{}", i);
    if (!fs::exists(folder)) return;
    DataSet(task, folder).run();
  }
}

}  // namespace sardonyx::cases
