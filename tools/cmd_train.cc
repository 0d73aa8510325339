// sardonyx train: everything that can be wrong is found before the first step; then the trainer
// runs and the listeners show what it does.
#include <fmt/core.h>
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "graph/support/log.h"
#include "graph/support/text.h"
#include "runtime/best_model.h"
#include "runtime/optimizer_flags.h"
#include "runtime/plot.h"
#include "runtime/progress.h"
#include "runtime/shared_processor.h"
#include "runtime/stop_signal.h"
#include "runtime/text.h"
#include "runtime/trace.h"
#include "runtime/trainer.h"
#include "runtime/usage.h"
#include "tools/command.h"
#include "tools/flags.h"
#include "tools/output_files.h"
#include "tools/streams.h"
#include "tools/train_checkpoints.h"
#include "tools/tuning_report.h"

namespace sardonyx::tools {

namespace {

using namespace runtime;  // NOLINT: this file is glue between its parts

constexpr double kQuietSeconds = 10;

void check_files(const Flags& flags) {
  if (flags.summary && !flags.dry_run) throw UsageError("--summary goes with --dry-run");
  if (flags.dry_run && flags.json) throw UsageError("--json goes with training, not --dry-run");
  const std::string kind = std::filesystem::path(flags.plot).extension();
  if (!flags.plot.empty() && kind != ".svg" && kind != ".html") {
    throw UsageError("--plot {}: expected a name that ends in .svg or .html", flags.plot);
  }
  check_outputs({{"--save", flags.save},
                 {"--save-best", flags.save_best},
                 {"--log", flags.log},
                 {"--plot", flags.plot},
                 {"--trace", flags.trace}},
                flags);
}

void advise(const Flags& flags, const TrainerOptions& options) {
  if (options.batch.cut.replicas == 1) {
    for (const auto& [flag, set] : {std::pair{"--reduce-dtype", flags.reduce_dtype != "f32"},
                                    {"--check-replicas", flags.check_replicas > 0},
                                    {"--sync-bn", flags.sync_bn}}) {
      if (!set) continue;
      support::notice("{}{} does nothing here: there is one replica", flag,
                      flags.given.contains(flag) ? "" : ", which the run had before,");
    }
  }
  if (flags.lr_scaling != "none") {
    support::notice(
        "--lr-scaling {}: lr {} for a batch of {} becomes {:.6g} for {}{}", flags.lr_scaling,
        learning_rate(flags), flags.base_batch.value_or(0), options.lr, options.batch.batch,
        options.schedule.warms_up() ? "" : "; large rates start better with --warmup 5epochs");
  }
}

std::string batch_text(const TrainerOptions& options) {
  const Cut cut = cut_batch(options.batch.batch, options.batch.cut);
  size_t pieces = 0;
  for (const auto& sizes : cut) pieces += sizes.size();
  std::string text = fmt::format("batch {}", options.batch.batch);
  if (pieces > 1) text += fmt::format(" in {} pieces", pieces);
  if (cut.size() > 1) text += fmt::format(" on {} replicas", cut.size());
  return text;
}

void print_facts(const Flags& flags, const Session& session, const FedData& data,
                 const Trainer& trainer) {
  const TrainerOptions& options = trainer.options();
  const RunInfo& info = trainer.info();
  const std::string test =
      data.test == nullptr ? "" : fmt::format(" and {} test", count_str(data.test->size()));
  put(stdout,
      support::printable(fmt::format("{}: {} parameters, {} training{} samples\n", info.model,
                                     count_str(info.parameters), count_str(info.samples), test)));
  put(stdout,
      fmt::format("{}, {} steps per epoch, {}; {} lr {:.6g} {}; {}; {} planned\n",
                  batch_text(options), info.steps_per_epoch,
                  options.steps
                      ? fmt::format("{} steps", *options.steps)
                      : fmt::format("{} epoch{}", info.epochs, info.epochs == 1 ? "" : "s"),
                  flags.optimizer, options.lr, options.schedule.str(), session.device_name(),
                  bytes_str(static_cast<double>(session.planned_bytes()))));
  const passes::Recomputed& again = session.recomputed();
  if (again.results == 0) return;
  put(stdout,
      fmt::format("{} result{} computed again instead of kept: about {} less{}, {:.1f} % more work "
                  "per step\n",
                  again.results, again.results == 1 ? "" : "s",
                  bytes_str(static_cast<double>(again.saved_bytes)),
                  session.replicas() > 1 ? " per replica" : "", 100 * again.work));
}

// Bars, lines and files that the flags ask for.
class Listeners {
 public:
  Listeners(const Flags& flags, Session& session, TrainCheckpoints& checkpoints) {
    const bool terminal = isatty(STDERR_FILENO) != 0;
    if (terminal) add(std::make_unique<ProgressBar>(stderr));
    if (flags.json) {
      add(std::make_unique<JsonLines>(stdout));
    } else {
      add(std::make_unique<EpochLines>(stdout, terminal ? 0 : kQuietSeconds));
    }
    using Begin = LogFile::Begin;
    const Begin begin = checkpoints.resumed() ? Begin::kAtItsEnd : Begin::kAnew;
    if (!flags.log.empty()) add(std::make_unique<LogFile>(flags.log, begin));
    if (!flags.plot.empty()) add(std::make_unique<PlotFile>(flags.plot, checkpoints.log()));
    if (!flags.save_best.empty()) {
      auto best = std::make_unique<BestModel>(session, flags.save_best, save_options(flags));
      best_ = best.get();
      add(std::move(best));
    }
    add(std::make_unique<SharedProcessorNotice>(session));
    if (!flags.trace.empty()) add(std::make_unique<TraceFile>(session, flags.trace));
    // Last: what the others write of a step is there when the step's checkpoint is.
    if (checkpoints.writer() != nullptr) all_.push_back(checkpoints.writer());
  }
  void add_best(RunSummary& summary) const {
    if (best_ == nullptr) return;
    summary.saved_best = best_->saved();
    summary.saved_best_data = best_->data_files();
  }
  const std::vector<TrainListener*>& all() const { return all_; }

 private:
  void add(std::unique_ptr<TrainListener> listener) {
    all_.push_back(listener.get());
    owned_.push_back(std::move(listener));
  }
  std::vector<std::unique_ptr<TrainListener>> owned_;
  std::vector<TrainListener*> all_;
  const BestModel* best_ = nullptr;
};

// "trained.onnx (+ trained.onnx.data)"
std::string files_text(const std::string& model, const std::vector<std::string>& data_files) {
  if (data_files.empty()) return model;
  return fmt::format("{} (+ {})", model, join(data_files));
}

void print_summary(const RunSummary& summary) {
  std::vector<std::string> facts;
  if (summary.best_test_accuracy) {
    facts.push_back(
        fmt::format("best test accuracy {:.2f} %", 100.0 * *summary.best_test_accuracy));
  }
  if (summary.done && !summary.stopped.empty()) {
    facts.push_back(fmt::format("{} after step {}, no epoch was better than epoch {}",
                                summary.stopped, summary.step, summary.best_epoch.value_or(0)));
  }
  if (summary.skipped_steps > 0) {
    facts.push_back(fmt::format("{} steps skipped", summary.skipped_steps));
  }
  if (summary.seconds_per_epoch > 0) {
    facts.push_back(duration_str(summary.seconds_per_epoch) + " per epoch");
  }
  facts.push_back(fmt::format("peak memory {} with the data set ({} of it planned for steps)",
                              bytes_str(static_cast<double>(summary.peak_bytes)),
                              bytes_str(static_cast<double>(summary.planned_bytes))));
  if (!summary.saved.empty()) {
    facts.push_back("saved " + files_text(summary.saved, summary.saved_data));
  }
  if (!summary.saved_best.empty()) {
    facts.push_back("the best saved " + files_text(summary.saved_best, summary.saved_best_data));
  }
  put(stdout, support::printable(join(facts, "; ") + "\n"));
}

// Those from number `first` on; returns how many there are.
size_t tell_notices(const Session& session, size_t first) {
  const std::vector<std::string>& notices = session.notices();
  for (size_t i = first; i < notices.size(); ++i) support::notice("{}", notices[i]);
  return notices.size();
}

void tell_tuning(Session& session, const Trainer& trainer) {
  support::notice("{}", session.tuner()->summary());
  const BatchSetup& batch = trainer.options().batch;
  support::notice("{}", gain_text(session.tuning_gain(cut_batch(batch.batch, batch.cut))));
}

// Plans everything, and tries what happens at the end.
void prepare(const Flags& flags, const Session& session, Trainer& trainer) {
  trainer.prepare();
  for (const auto& [flag, path] :
       {std::pair{"--save", flags.save}, {"--save-best", flags.save_best}}) {
    if (path.empty()) continue;
    with_context(
        [&, name = flag, &file = path] { return fmt::format("preparing {} {}", name, file); },
        [&, &file = path] { session.check_save(file, save_options(flags)); });
  }
}

int dry_run(const Flags& flags, Session& session, const FedData& data, Trainer& trainer) {
  prepare(flags, session, trainer);
  print_facts(flags, session, data, trainer);
  const passes::Plan& plan = session.largest_training_plan();
  fmt::print("\n{}", passes::summary(plan));
  if (!flags.summary) fmt::print("\n{}", passes::print(plan));
  return 0;
}

void tell_unsaved(const Flags& flags) {
  if (!flags.save.empty() || !flags.save_best.empty() || !flags.checkpoint.empty()) return;
  support::notice("the trained weights aren't kept: --save FILE writes the model with them");
}

// What was lifted here is in the saved file as it was: only trained values differ.
void tell_saved_batch(const Session& session, const RunSummary& summary) {
  const std::string& saved = summary.saved.empty() ? summary.saved_best : summary.saved;
  const int64_t rows = rows_in_file(session);
  if (saved.empty() || !session.options().pipeline.set_batch || rows <= 0) return;
  support::notice(
      "{} still has the batch {} baked in, as the file it comes from: `sardonyx eval` takes it "
      "with --set-batch, other runtimes {} rows at once",
      saved, rows, rows);
}

int train(Flags flags) {
  TrainCheckpoints checkpoints(flags);
  SessionOptions session_flags = tuning_until_signal(flags);
  trainer_options(flags, -1);  // usage first: nothing was read so far
  augment_options(flags);
  adapt_options(flags);
  save_options(flags);
  check_files(flags);
  checkpoints.replay(session_flags);
  const auto session = Session::open(flags.model, std::move(session_flags));
  checkpoints.check_model(flags, *session);
  const Feed feed = find_feed(*session, flags);
  const TrainerOptions options = trainer_options(flags, feed.baked_rows());
  const FedData data =
      open_data(*session, feed, flags, largest_micro_batch(options.batch), DataUse::kTraining);
  Trainer trainer(*session, feed, data, options);
  const size_t told = tell_notices(*session, 0);
  advise(flags, trainer.options());
  if (flags.dry_run) return dry_run(flags, *session, data, trainer);
  const StopSignal signal;
  prepare(flags, *session, trainer);
  tell_notices(*session, told);
  if (session->tuner() != nullptr) tell_tuning(*session, trainer);
  checkpoints.begin(flags, *session, trainer);
  tell_unsaved(flags);
  if (!flags.json) print_facts(flags, *session, data, trainer);
  const Listeners listeners(flags, *session, checkpoints);
  RunSummary summary = trainer.run(listeners.all(), [] { return StopSignal::received() != 0; });
  Checkpointer* writer = checkpoints.writer();
  if (writer != nullptr) {
    writer->close(trainer.state());
    summary.checkpoint = writer->newest();
  }
  if (!flags.save.empty()) {
    SavedModel saved = session->save(flags.save, save_options(flags));
    for (const std::string& line : saved.notices) support::notice("{}", line);
    summary.saved = flags.save;
    summary.saved_data = std::move(saved.data_files);
  }
  listeners.add_best(summary);
  if (!summary.done) summary.stopped = StopSignal::name(StopSignal::received());
  for (TrainListener* listener : listeners.all()) listener->end(summary);
  if (!flags.json) {
    print_summary(summary);
    // Lines for people: who closed them early, as `head` does, has seen enough.
    forget_gone_reader();
  }
  tell_saved_batch(*session, summary);
  if (writer != nullptr && !writer->failure().empty()) {
    throw Error("the checkpoint of step {} is missing: {}", summary.step, writer->failure());
  }
  if (summary.done) return 0;
  put(stderr, fmt::format("stopped by {} after step {}{}\n", summary.stopped, summary.step,
                          writer != nullptr       ? "; go on with --resume"
                          : summary.saved.empty() ? "; nothing was saved (no --save)"
                                                  : ""));
  return 128 + StopSignal::received();
}

}  // namespace

Action setup_train(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  add_model_argument(app, *flags);
  add_data_flags(app, *flags);
  add_length_flags(app, *flags);
  add_batch_flags(app, *flags);
  add_device_flags(app, *flags);
  add_loss_flags(app, *flags);
  add_optimizer_flags(app, *flags);
  add_parameter_flags(app, *flags);
  add_run_flags(app, *flags);
  add_experiment_flags(app, *flags);
  add_file_flags(app, *flags);
  add_json_flag(app, *flags);
  app.add_flag("--dry-run", flags->dry_run, "plan, memory and facts; no step")->group("Run");
  app.add_flag("--summary", flags->summary, "of --dry-run: steps, memory and savings only")
      ->group("Run");
  add_example(
      app,
      "sardonyx train lenet.onnx --data fashion-mnist --epochs 10 --batch 256 --lr 0.2 \\\n"
      "    --save trained.onnx --plot curve.svg\n"
      "  sardonyx train net.onnx --data cifar10 --epochs 50 --optimizer adamw --lr 1e-3 \\\n"
      "    --group 'fc.*:lr=1e-2' --no-decay norm,bias --clip-norm 1 --ema 0.999 \\\n"
      "    --schedule cosine --warmup 2epochs --save-best best.onnx --early-stop 10");
  return [flags, &app] {
    for (const CLI::Option* option : app.get_options()) {
      if (option->count() > 0) flags->given.insert(option->get_name());
    }
    return train(*flags);
  };
}

}  // namespace sardonyx::tools
