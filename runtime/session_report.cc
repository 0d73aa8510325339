// What a session tells about a model and its plans: for `check`, `inspect` and reports.
#include <unistd.h>

#include <algorithm>

#include "graph/support/error.h"
#include "graph/support/text.h"
#include "passes/pipelines.h"
#include "runtime/session.h"
#include "runtime/text.h"

namespace sardonyx::runtime {

using passes::MicroBatch;

void Session::describe_data(std::map<std::string, std::vector<int64_t>> sample_shapes,
                            graph::TensorType labels) {
  CHECK(plans_.empty(), "the data are described before the first plan");
  for (const auto& [input, shape] : sample_shapes) options_.pipeline.row_inputs.insert(input);
  options_.pipeline.sample_shapes = std::move(sample_shapes);
  options_.pipeline.loss.labels = std::move(labels);
}

void Session::describe_sample(const SampleSizes& sizes) {
  std::map<std::string, std::vector<int64_t>> by_name;
  for (const auto& [name, shape] : sizes) {
    const graph::Value* input = nullptr;
    std::vector<std::string> names;
    for (const graph::Value* known : data_inputs()) {
      if (input == nullptr && (name.empty() || known->name == name)) input = known;
      names.push_back(support::in_quotes(known->name));
    }
    if (input == nullptr) {
      throw Error("--input {}=...: the model has no such input that takes data; there is {}",
                  support::escaped(name), names.empty() ? "none" : join(names));
    }
    if (!by_name.emplace(input->name, shape).second) {
      throw Error("--input gives sizes for {} twice", support::in_quotes(input->name));
    }
  }
  describe_data(std::move(by_name), {});
}

// nll of anything else trains too, towards minus infinity.
void Session::check_log_probabilities(const graph::Value& scores) {
  const graph::Node* node = scores.producer;
  while (node != nullptr && node->num_inputs() > 0 && node->input(0) != nullptr &&
         (node->is("", "Identity") || node->is("", "Reshape") || node->is("", "Flatten") ||
          node->is("", "Squeeze") || node->is("", "Transpose") || node->is("", "Cast"))) {
    node = node->input(0)->producer;
  }
  // Some exporters write LogSoftmax as Log of Softmax, or as a subtraction.
  for (const char* op : {"LogSoftmax", "Log", "Sub"}) {
    if (node == nullptr || node->is("", op)) return;
  }
  add_notices(
      {fmt::format("--loss nll takes log-probabilities, but '{}' comes from {}: end the model with "
                   "LogSoftmax, or use --loss cross_entropy",
                   scores.name, node->label())});
}

Examination Session::examine(int64_t rows, passes::Mode mode) {
  const Kind kind = mode == passes::Mode::kTrain ? Kind::kTrain : Kind::kEval;
  passes::PassContext context = context_for({kind, MicroBatch::kOnly, rows, "", 0});
  Examination result;
  result.graph = imported_.graph->clone();
  try {
    passes::run_pipeline(*result.graph, context, passes::preparation_pipeline(),
                         options_.instruments);
  } catch (const Error& error) {
    result.error = error.what();
  }
  add_notices(context.notices);
  if (const graph::Value* scores = result.graph->find(context.logits)) {
    result.scores = scores->type;
    if (options_.pipeline.loss.kind == "nll") check_log_probabilities(*scores);
  }
  result.parameters = std::move(context.parameters);
  result.unsupported = std::move(context.unsupported);
  result.least_rows = context.least_rows;
  return result;
}

std::vector<passes::ParameterRow> Session::parameters(int64_t rows) {
  passes::PassContext context = context_for({Kind::kTrain, MicroBatch::kOnly, rows, "", 0});
  std::unique_ptr<graph::Graph> graph = imported_.graph->clone();
  passes::run_pipeline(*graph, context, passes::preparation_pipeline(), options_.instruments);
  add_notices(context.notices);
  return context.parameters;
}

std::unique_ptr<graph::Graph> Session::training_graph(int64_t rows) {
  const PlanKey key{Kind::kTrain, MicroBatch::kOnly, rows, "", 0};
  passes::PassContext context = context_for(key);
  return build(key, context);
}

std::unique_ptr<graph::Graph> Session::evaluation_graph(int64_t rows) {
  const PlanKey key{Kind::kEval, MicroBatch::kOnly, rows, "", 0};
  passes::PassContext context = context_for(key);
  return build(key, context);
}

const passes::Plan& Session::training_plan(int64_t rows) {
  return *plan_for({Kind::kTrain, MicroBatch::kOnly, rows, "", 0}).plan;
}

std::unique_ptr<passes::Plan> Session::draft_plan(int64_t rows) {
  passes::StateTable states = states_;
  const PlanKey key{Kind::kTrain, MicroBatch::kOnly, rows, "", 0};
  std::unique_ptr<Loaded> made = make_plan(key, context_for(key), states);
  if (tuner_ != nullptr) tuner_->save();
  return std::move(made->plan);
}

passes::MemoryReport Session::memory() const {
  passes::MemoryReport report;
  for (const auto& [key, loaded] : plans_) {
    if (loaded == nullptr) continue;
    const passes::MemoryReport& own = loaded->plan->memory;
    report.arena_bytes = std::max(report.arena_bytes, own.arena_bytes);
    report.sum_bytes = std::max(report.sum_bytes, own.sum_bytes);
    if (own.liveness_bound_bytes <= report.liveness_bound_bytes) continue;
    report.liveness_bound_bytes = own.liveness_bound_bytes;
    report.peak_node = own.peak_node;
  }
  report.state_bytes = states_.bytes();
  return report;
}

size_t Session::planned_bytes() const {
  const passes::MemoryReport report = memory();
  return static_cast<size_t>(replicas()) * (report.state_bytes + report.arena_bytes);
}

TuningGain Session::tuning_gain(const Cut& cut) {
  TuningGain sum;
  const std::vector<std::vector<Run>> runs = runs_of(cut);
  for (const Run& run : runs[0]) {
    const TuningGain& gain = run.loaded->gain;
    sum.nodes = std::max(sum.nodes, gain.nodes);
    sum.changed = std::max(sum.changed, gain.changed);
    sum.seconds += gain.seconds;
  }
  return sum;
}

std::vector<pid_t> Session::thread_ids() const {
  std::vector<pid_t> ids = replicas_->worker_ids();
  ids.push_back(gettid());
  return ids;
}

const Session::Loaded& Session::largest_training() const {
  const Loaded* largest = nullptr;
  for (const auto& [key, loaded] : plans_) {
    if (key.kind != Kind::kTrain || loaded == nullptr) continue;
    if (largest == nullptr || loaded->plan->arena_bytes > largest->plan->arena_bytes) {
      largest = loaded.get();
    }
  }
  CHECK(largest != nullptr, "there is no training plan yet");
  return *largest;
}

const passes::Plan& Session::largest_training_plan() const { return *largest_training().plan; }

const passes::Recomputed& Session::recomputed() const {
  return largest_training().context.recomputed;
}

void Session::set_recorder(Recorder* recorder) {
  recorder_ = recorder;
  replicas_->set_recorder(recorder);
}

std::vector<const passes::Plan*> Session::training_plans() const {
  std::vector<const passes::Plan*> plans;
  for (const auto& [key, loaded] : plans_) {
    if (key.kind == Kind::kTrain && loaded != nullptr) plans.push_back(loaded->plan.get());
  }
  return plans;
}

}  // namespace sardonyx::runtime
