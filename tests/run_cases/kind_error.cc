// error: an Error at the named stage or before, with a message that holds certain words.
//
// load = the file and its shapes; plan = options and batch too, nothing run; train = data seen.
// Cases with an optimizer take the way of `sardonyx train` (command_run.h).
#include <nlohmann/json.hpp>

#include "tests/run_cases/command_run.h"
#include "tests/run_cases/kit.h"

namespace sardonyx::cases {

using nlohmann::json;

namespace {

class Stages {
 public:
  explicit Stages(Task& task) : task_(task), is_run_(task.spec.contains("optimizer")) {}

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

  void plan() {
    if (is_run_) {
      plan_run();
      return;
    }
    runtime::Session& session = open(training_options(task_, data_));
    if (task_.spec.contains("micro_batches")) {
      session.prepare_training({{task_.spec["micro_batches"].get<std::vector<int64_t>>()}});
    } else if (data_.inputs.empty()) {
      session.prepare_training({{{rows_for(session, 2)}}});
    } else {
      session.evaluation_graph(data_.rows());
    }
    take_notices(session);
  }

  void train() {
    if (is_run_) {
      run_->train(*session_);
    } else {
      session_->forward(data_, passes::Mode::kEval);
    }
    take_notices(*session_);
  }

  void plan_run() {
    run_ = std::make_unique<CommandRun>(task_, data_);
    run_->check_flags();
    open(run_->session_options());
  }

  runtime::Session& open(const runtime::SessionOptions& options) {
    session_ = runtime::Session::open(task_.model(), options);
    return *session_;
  }

  Task& task_;
  bool is_run_;
  runtime::Batch data_;
  std::unique_ptr<CommandRun> run_;
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
