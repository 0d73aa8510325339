// error: an Error at the named stage or before, with a message that holds certain words.
//
// load = the file and its shapes; plan = options and batch too, nothing run; train = data seen.
#include <nlohmann/json.hpp>

#include "runtime/batch_cut.h"
#include "runtime/data/labels.h"
#include "runtime/data/sampler.h"
#include "tests/run_cases/kit.h"

namespace sardonyx::cases {

using nlohmann::json;

namespace {

class Stages {
 public:
  explicit Stages(Task& task) : task_(task), option_(task.spec.value("option", json::object())) {}

  void reach(const std::string& stage) {
    load();
    if (stage == "load") return;
    data_ = read_batch(task_);
    plan();
    if (stage == "plan") return;
    if (stage != "train") throw Mismatch("run_cases knows no stage '{}'", stage);
    train();
  }

  const std::vector<std::string>& notices() const { return notices_; }

 private:
  void take_notices(const runtime::Session& session) {
    notices_.insert(notices_.end(), session.notices().begin(), session.notices().end());
  }

  // What `check` does before it looks for a loss.
  void load() {
    runtime::SessionOptions options = plain_options(task_);
    options.pipeline.loss.kind = "none";
    const auto session = runtime::Session::open(task_.model(), options);
    take_notices(*session);
    session->evaluation_graph(rows_for(*session, 2));
    take_notices(*session);
  }

  bool has_loss() const { return task_.spec.contains("loss"); }

  void plan() {
    check_options();
    session_ = runtime::Session::open(task_.model(), training_options(task_, data_));
    const int64_t rows = data_.inputs.empty() ? rows_for(*session_, 2) : data_.rows();
    if (task_.spec.contains("micro_batches")) {
      session_->prepare_training({{task_.spec["micro_batches"].get<std::vector<int64_t>>()}});
    } else if (has_loss() || data_.inputs.empty()) {
      if (rows > 0) session_->prepare_training({{{rows}}});
    } else {
      session_->evaluation_graph(rows);
    }
    take_notices(*session_);
  }

  // As the command line does with the same flags.
  void check_options() const {
    runtime::BatchFlags flags;
    if (option_.contains("global_batch")) flags.batch = option_["global_batch"].get<int64_t>();
    if (option_.contains("micro_batch")) flags.micro_batch = option_["micro_batch"].get<int64_t>();
    if (option_.contains("accumulation")) flags.accumulate = option_["accumulation"].get<int64_t>();
    flags.replicas = option_.value("replicas", int64_t{1});
    if (flags.batch || flags.micro_batch) {
      const runtime::BatchSetup setup = runtime::resolve_batch(flags);
      runtime::SamplerOptions sampler;
      sampler.batch = setup.batch;
      if (option_.value("drop_last", false)) sampler.tail = runtime::Tail::kDrop;
      runtime::Sampler(data_.rows(), sampler);
    }
  }

  void train() {
    if (!has_loss()) {
      session_->forward(data_, passes::Mode::kEval);
      return;
    }
    check_data();
    const double lr = task_.spec.at("optimizer").at("lr");
    for (int i = 0; i < task_.spec.value("steps_to_run", 1); ++i) {
      session_->train_step(data_, {{data_.rows()}}, lr);
    }
    take_notices(*session_);
  }

  void check_data() const {
    runtime::check_not_empty(data_.rows(), "the data");
    runtime::SessionOptions options = plain_options(task_);
    describe(options, data_);
    options.pipeline.loss.kind = "none";
    const auto graph =
        runtime::Session::open(task_.model(), options)->evaluation_graph(data_.rows());
    const graph::TensorType scores =
        graph->find(task_.spec["loss"].at("output").get<std::string>())->type;
    runtime::ClassLabels expected;
    expected.samples = data_.rows();
    expected.classes = scores.dims.at(1).value;
    runtime::check_class_labels(data_.labels, expected, "labels");
  }

  Task& task_;
  json option_;
  runtime::Batch data_;
  std::unique_ptr<runtime::Session> session_;
  std::vector<std::string> notices_;
};

void check_print(const Task& task, const std::string& text) {
  for (const std::string& word : task.spec.value("must_not_print", std::vector<std::string>())) {
    if (text.find(word) != std::string::npos) {
      throw Mismatch("the message holds {}", json(word).dump());
    }
  }
}

}  // namespace

void run_error(Task& task) {
  Stages stages(task);
  try {
    stages.reach(task.spec.at("stage"));
  } catch (const Error& error) {
    check_print(task, error.what());
    const std::string missing = missing_words(error.what(), task.spec.at("must_mention"));
    if (!missing.empty()) throw Mismatch("the message lacks {}: {}", missing, error.what());
    return;
  }
  const bool may_succeed = task.spec.value("accept_outcome", "") == "success with a message" ||
                           task.spec.value("accept_warning", false);
  if (!may_succeed) throw Mismatch("no error at stage {}", task.spec["stage"].dump());
  if (stages.notices().empty()) throw Mismatch("accepted without an error and without a notice");
  task.notes.push_back("accepted: " + stages.notices().back());
}

}  // namespace sardonyx::cases
