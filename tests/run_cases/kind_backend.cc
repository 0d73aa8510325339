// A node test of the ONNX backend: model.onnx and test_data_set_N/{input_i,output_i}.pb.
#include <algorithm>
#include <filesystem>

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

void run_data_set(const Task& task, const fs::path& folder) {
  runtime::SessionOptions options = plain_options(task);
  options.pipeline.respect_training_mode = true;  // the file is meant as it stands
  runtime::Batch batch;
  const auto inputs = read_all(folder, "input");
  {
    const auto file = runtime::Session::open(task.model(), options);
    for (size_t i = 0; i < file->data_inputs().size() && i < inputs.size(); ++i) {
      batch.inputs.emplace_back(file->data_inputs()[i]->name, inputs[i]);
    }
  }
  describe(options, batch);
  const auto got =
      runtime::Session::open(task.model(), options)->forward(batch, passes::Mode::kTrain);
  const auto want = read_all(folder, "output");
  for (size_t i = 0; i < want.size(); ++i) {
    if (i >= got.size()) throw Mismatch("output {} is missing", i);
    if (const auto difference = test::difference(got[i].second, want[i], {1e-3, 1e-7})) {
      throw Mismatch("output '{}': {}", got[i].first, *difference);
    }
  }
}

}  // namespace

void run_node_test(Task& task) {
  for (int i = 0;; ++i) {
    const fs::path folder = task.folder / fmt::format("test_data_set_{}", i);
    if (!fs::exists(folder)) return;
    run_data_set(task, folder);
  }
}

}  // namespace sardonyx::cases
