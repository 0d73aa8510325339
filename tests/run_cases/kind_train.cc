// train: losses and parameters of a few steps, and the same parameters in the saved file.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "graph/names.h"
#include "tests/run_cases/kit.h"

namespace sardonyx::cases {

using graph::Tensor;
using nlohmann::json;

namespace {

runtime::Cut cut_of(const json& step) { return step.at("shards").get<runtime::Cut>(); }

int64_t rows_in(const runtime::Cut& cut) {
  int64_t rows = 0;
  for (const auto& parts : cut) rows = std::accumulate(parts.begin(), parts.end(), rows);
  return rows;
}

void run_steps(const Task& task, runtime::Session& session, const runtime::Batch& data) {
  const test::Tolerance tolerance = tolerance_of(task.spec);
  const json& steps = task.spec.at("steps");
  for (size_t i = 0; i < steps.size(); ++i) {
    const runtime::Cut cut = cut_of(steps[i]);
    if (cut.size() > 1) throw Mismatch("needs replicas: the step is cut over {}", cut.size());
    const runtime::Batch batch =
        rows_of(data, steps[i].value("first_sample", int64_t{0}), rows_in(cut));
    const double loss = session.train_step(batch, cut, steps[i].at("lr")).loss;
    const double want = task.spec.at("loss_step").at(i);
    if (!(std::abs(loss - want) <= tolerance.atol + tolerance.rtol * std::abs(want))) {
      throw Mismatch("loss of step {} is {}, expected {}", i + 1, loss, want);
    }
  }
}

// The session's value, or the file's for what isn't trained.
Tensor value_of(const runtime::Session& session, const std::string& name) {
  const auto states = session.state_names();
  if (std::find(states.begin(), states.end(), name) != states.end()) return session.state(name);
  const graph::Value* value = session.imported().find(name);
  if (value != nullptr && value->data.defined()) return value->data;
  if (value != nullptr && value->producer != nullptr) {
    if (const Tensor* tensor = value->producer->get_tensor("value")) return *tensor;
  }
  throw Mismatch("there is no parameter '{}'", name);
}

void check_parameters(const Task& task, const runtime::Session& session, const char* what) {
  NamedTensors got;
  const NamedTensors want = read_list(task, task.spec.at("params_after"));
  for (const auto& [name, expected] : want) got.emplace_back(name, value_of(session, name));
  const std::string difference = compare(got, want, tolerance_of(task.spec), what, Types::kAny);
  if (!difference.empty()) throw Mismatch("{}", difference);
}

void check_frozen(const Task& task, const runtime::Session& session) {
  const auto original = runtime::Session::open(task.model(), plain_options(task));
  for (const std::string& name : task.spec.value("frozen", std::vector<std::string>())) {
    if (!value_of(session, name).identical(value_of(*original, name))) {
      throw Mismatch("the frozen '{}' has other bytes", name);
    }
  }
}

}  // namespace

void run_train(Task& task) {
  const runtime::Batch data = read_batch(task);
  const auto session = runtime::Session::open(task.model(), training_options(task, data));
  run_steps(task, *session, data);
  check_parameters(task, *session, "parameter");
  check_frozen(task, *session);
  const auto saved = task.scratch / "saved.onnx";
  session->save(saved);
  check_parameters(task, *runtime::Session::open(saved, plain_options(task)), "saved parameter");
  if (task.spec.contains("resume_after")) throw Mismatch("needs checkpoints: resumes a run");
}

}  // namespace sardonyx::cases
