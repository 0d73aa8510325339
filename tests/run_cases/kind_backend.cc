// A node test of the ONNX backend: the outputs as its data sets have them.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "graph/onnx_import.h"
#include "tests/run_cases/node_data.h"

namespace sardonyx::cases {

namespace {

// As the test says (data.json), else as the suite's runner does. What is expected in a narrow type
// was rounded to it at every step, what Sardonyx computes wasn't: two units in the last place.
test::Tolerance tolerance_of(const Task& task, graph::DType expected) {
  const double narrow = expected == graph::DType::kBFloat16  ? 0x1p-6
                        : expected == graph::DType::kFloat16 ? 0x1p-9
                                                             : 0;
  const bool said = std::filesystem::exists(task.file("data.json"));
  const nlohmann::json own = said ? read_json(task.file("data.json")) : nlohmann::json::object();
  return {std::max(own.value("rtol", 1e-3), narrow), own.value("atol", 1e-7)};
}

void check(const Task& task, const NodeData& data, const graph::Graph& file,
           const NamedTensors& got) {
  for (size_t i = 0; i < data.outputs().size(); ++i) {
    if (i >= got.size()) throw Mismatch("output {} is missing", i);
    const graph::DType declared = file.outputs()[i]->type.dtype;
    const graph::Tensor want = as_declared(data.outputs()[i], declared);
    if (const auto difference =
            test::difference(got[i].second, want, tolerance_of(task, want.dtype()))) {
      throw Mismatch("output '{}': {}", got[i].first, *difference);
    }
  }
}

void run_model(const Task& task, const NodeData& data, Known known) {
  const std::shared_ptr<const graph::Model> model = data.model(task.model(), known);
  const graph::ImportedModel file = graph::import_model(model);
  runtime::SessionOptions options = plain_options(task);
  options.pipeline.respect_training_mode = true;  // the file is meant as it stands
  const runtime::Batch batch = data.batch(*file.graph, known);
  describe(options, batch);
  runtime::Session session(model, options);
  check(task, data, *file.graph, session.forward(batch, passes::Mode::kTrain));
}

}  // namespace

void run_node_test(Task& task) {
  for (const NodeData& data : data_sets(task.folder)) {
    with_enough_known({Known::kNothing, Known::kLists, Known::kAll},
                      [&](Known known) { run_model(task, data, known); });
  }
}

}  // namespace sardonyx::cases
