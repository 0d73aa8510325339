#include "tests/run_cases/save_facts.h"

#include <onnx/onnx_pb.h>

#include <nlohmann/json.hpp>
#include <set>

#include "graph/onnx_import.h"
#include "tests/run_cases/kit.h"
#include "tests/support/shared_data.h"

namespace sardonyx::cases {

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

// A step on made-up data, so that the file counts as trained.
void take_step(const Task& task, runtime::Session& session) {
  const int64_t rows = rows_for(session, 4);
  runtime::Batch batch;
  for (const graph::Value* input : session.data_inputs()) {
    std::vector<int64_t> shape = input->type.shape();
    shape.at(0) = rows;
    batch.inputs.emplace_back(input->name, test::random_tensor(input->type.dtype, shape));
  }
  batch.labels = graph::Tensor(graph::DType::kInt64, {rows});
  session.train_step(batch, {{rows}}, 0.1);
  (void)task;
}

// "identity, removed or mode false"
void check_dropout(const onnx::ModelProto& model) {
  std::set<std::string> off;
  for (const onnx::TensorProto& tensor : model.graph().initializer()) {
    if (tensor.raw_data() == std::string(1, '\0')) off.insert(tensor.name());
  }
  for (const onnx::NodeProto& node : model.graph().node()) {
    if (node.op_type() != "Dropout" || node.input_size() < 3) continue;
    if (!off.contains(node.input(2))) throw Mismatch("Dropout is saved with a training mode");
  }
}

void check_form(const onnx::ModelProto& model, const json& form) {
  if (form.contains("Dropout")) check_dropout(model);
  for (const onnx::NodeProto& node : model.graph().node()) {
    if (!form.contains(node.op_type()) || !form[node.op_type()].is_object()) continue;
    const json& want = form[node.op_type()];
    int64_t training_mode = 0;
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.name() == "training_mode") training_mode = attribute.i();
    }
    if (training_mode != want.at("training_mode") || node.output_size() != want.at("outputs")) {
      throw Mismatch("{} is saved with training_mode {} and {} outputs, expected {}",
                     node.op_type(), training_mode, node.output_size(), want.dump());
    }
  }
}

// Without steps the file is a copy, so everything in it is the same.
void check_copy(const Task& task, const fs::path& saved) {
  if (testing::read_file(saved) != testing::read_file(task.model())) {
    throw Mismatch("saved without a step, the file has other bytes");
  }
}

}  // namespace

void check_save(const Task& task, runtime::Session& session, const json& facts) {
  const fs::path folder = task.scratch / "another folder";
  fs::create_directories(folder);
  const fs::path saved = folder / "saved.onnx";
  const int steps = facts.at("steps");
  if (steps > 0) take_step(task, session);
  session.save(saved);
  const auto again = runtime::Session::open(saved, plain_options(task));
  if (steps == 0) check_copy(task, saved);
  if (facts.contains("ir_version") && again->imported().ir_version != facts["ir_version"]) {
    throw Mismatch("the saved file has IR version {}", again->imported().ir_version);
  }
  const json opsets = facts.value("opset", json::object());
  for (const auto& [domain, version] : opsets.items()) {
    if (again->imported().opsets.at(domain) != version) throw Mismatch("the opset has changed");
  }
  if (facts.value("loads_there", false)) {
    fs::rename(task.folder / "model.onnx", task.folder / "moved.onnx");
    again->evaluation_graph(rows_for(*again, 2));
  }
  if (facts.contains("default_form")) {
    check_form(again->model().skeleton(), facts["default_form"]);
  }
  if (facts.contains("with_option_keep_training_form")) {
    session.save(saved, {.form = runtime::SaveForm::kAsInFile});
    const auto kept = graph::Model::open(saved);
    check_form(kept->skeleton(), facts["with_option_keep_training_form"]);
  }
}

}  // namespace sardonyx::cases
