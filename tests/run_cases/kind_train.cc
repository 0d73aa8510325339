// train: losses and parameters of a few steps, and the same parameters in the saved file.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "graph/names.h"
#include "runtime/checkpoint.h"
#include "runtime/data/batch_cut.h"
#include "tests/run_cases/kit.h"

namespace sardonyx::cases {

using graph::Tensor;
using nlohmann::json;

namespace {

runtime::Cut cut_of(const json& step) { return step.at("shards").get<runtime::Cut>(); }

std::unique_ptr<runtime::Session> open_for_training(const Task& task, const runtime::Batch& data,
                                                    runtime::KernelChoices replay) {
  runtime::SessionOptions options = training_options(task, data);
  options.replay = std::move(replay);
  std::vector<runtime::Cut> cuts;
  for (const json& step : task.spec.at("steps")) cuts.push_back(cut_of(step));
  options.devices.assign(cuts.at(0).size(), task.variant.device);
  options.threads = std::max(options.threads, static_cast<int>(options.devices.size()));
  auto session = runtime::Session::open(task.model(), std::move(options));
  session->prepare_training(cuts);
  return session;
}

// Through a checkpoint on disk into a new session.
std::unique_ptr<runtime::Session> resumed(const Task& task, const runtime::Session& session,
                                          const runtime::Batch& data) {
  runtime::CheckpointFolder folder(task.scratch / "checkpoints");
  runtime::Manifest manifest;
  manifest.run.step = session.steps();
  manifest.kernels = session.kernel_choices();
  folder.write(manifest, session.saved_states(),
               [&](const std::string& name) { return session.state(name); });
  const runtime::Checkpoint read = folder.newest().value();
  auto next = open_for_training(task, data, read.manifest.kernels);
  next->restore(read.states, read.manifest.run.step);
  return next;
}

// The session after all steps; `stops`: numbers of steps after which the run is left and resumed.
std::unique_ptr<runtime::Session> run_steps(const Task& task, const runtime::Batch& data,
                                            const std::vector<size_t>& stops) {
  const test::Tolerance tolerance = tolerance_of(task.spec);
  const json& steps = task.spec.at("steps");
  auto session = open_for_training(task, data, {});
  for (size_t i = 0; i < steps.size(); ++i) {
    if (std::find(stops.begin(), stops.end(), i) != stops.end()) {
      session = resumed(task, *session, data);
    }
    const runtime::Cut cut = cut_of(steps[i]);
    const runtime::Batch batch =
        rows_of(data, steps[i].value("first_sample", int64_t{0}), runtime::rows_in(cut));
    const double loss = session->train_step(batch, cut, steps[i].at("lr")).loss;
    const std::string difference = session->replica_difference();
    if (!difference.empty()) throw Mismatch("after step {}: {}", i + 1, difference);
    const double want = task.spec.at("loss_step").at(i);
    if (!(std::abs(loss - want) <= tolerance.atol + tolerance.rtol * std::abs(want))) {
      throw Mismatch("loss of step {} is {}, expected {}", i + 1, loss, want);
    }
  }
  return session;
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
  const auto session = run_steps(task, data, {});
  check_parameters(task, *session, "parameter");
  check_frozen(task, *session);
  const auto saved = task.scratch / "saved.onnx";
  session->save(saved);
  check_parameters(task, *runtime::Session::open(saved, plain_options(task)), "saved parameter");
  if (!task.spec.contains("resume_after")) return;
  const auto other = run_steps(task, data, task.spec["resume_after"].get<std::vector<size_t>>());
  check_parameters(task, *other, "resumed parameter");
  for (const runtime::SavedState& state : session->saved_states()) {
    if (other->state(state.name).identical(session->state(state.name))) continue;
    throw Mismatch("'{}' has other bits when the run is resumed", state.name);
  }
}

}  // namespace sardonyx::cases
