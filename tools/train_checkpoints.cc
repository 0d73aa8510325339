#include "tools/train_checkpoints.h"

#include <onnx/onnx_pb.h>

#include <filesystem>

#include "graph/support/log.h"
#include "graph/support/text.h"
#include "runtime/optimizer_flags.h"
#include "runtime/usage.h"

namespace sardonyx::tools {

using namespace runtime;  // NOLINT: this file is glue between its parts
using support::escaped;

TrainCheckpoints::TrainCheckpoints(Flags& flags) : options_(checkpoint_options(flags)) {
  if (flags.dry_run && flags.resume) throw UsageError("--resume goes with training, not --dry-run");
  if (flags.checkpoint.empty() || flags.dry_run) return;
  folder_.emplace(flags.checkpoint);
  if (!flags.resume) {
    if (folder_->steps().empty()) return;
    throw Error(
        "--checkpoint {}: it holds the checkpoints of a run, the newest after step {}; go on with "
        "--resume, or choose another folder",
        escaped(flags.checkpoint), folder_->steps().front());
  }
  from_ = folder_->newest();
  if (!from_) {
    support::notice("--checkpoint {} holds no checkpoint, the run begins at step 0",
                    escaped(flags.checkpoint));
    return;
  }
  with_context([&] { return "resuming from " + escaped(from_->path.string()); },
               [&] {
                 for (const std::string& line : take_over(flags, from_->manifest.config)) {
                   support::notice("{}", line);
                 }
               });
}

void TrainCheckpoints::replay(SessionOptions& options) const {
  if (from_) options.replay = from_->manifest.kernels;
}

void TrainCheckpoints::check_model(const Flags& flags, const Session& session) const {
  if (!from_) return;
  const Manifest& before = from_->manifest;
  const FileSum sum = sum_of(session);
  if (sum == before.model_sum) return;
  const std::string other = fmt::format(
      "{} is not the file that the run began with (it has {}, {} had {})", escaped(flags.model),
      sum_str(sum), escaped(before.model), sum_str(before.model_sum));
  std::string lines;
  // Weights inside functions have names that the file itself doesn't know.
  bool strange = session.model().skeleton().functions().empty();
  for (const auto& [name, value] : from_->states) {
    const graph::Value* tensor = session.imported().find(name);
    strange &= tensor == nullptr;
    if (tensor == nullptr || !tensor->is_constant() || tensor->type.shape() == value.shape()) {
      continue;
    }
    lines += fmt::format("\n  {} is {} in it, {} in the file", support::in_quotes(name),
                         graph::shape_str(value.shape()), graph::shape_str(tensor->type.shape()));
  }
  if (strange) {
    throw Error(
        "--checkpoint {}: its newest checkpoint is of another model: {}, and none of its tensors "
        "is there; give the model of the run, or another folder",
        escaped(flags.checkpoint), other);
  }
  if (lines.empty()) return support::warning("{}", other);
  throw Error(
      "--checkpoint {}: its newest checkpoint is of another model: {}, and these tensors differ; "
      "give the model of the run, or another folder:{}",
      escaped(flags.checkpoint), other, lines);
}

Manifest TrainCheckpoints::manifest(const Flags& flags, const Session& session,
                                    const Trainer& trainer) const {
  const TrainerOptions& options = trainer.options();
  Flags decided = flags;  // what the file or a default decided counts as if it were given
  decided.batch = options.batch.batch;
  decided.replicas = session.replicas();
  if (!options.steps) decided.epochs = options.epochs;
  decided.lr = learning_rate(flags);
  decided.weight_decay = weight_decay(flags);
  Manifest manifest;
  manifest.seed = options.seed;
  manifest.samples = trainer.info().samples;
  manifest.model = session.model().path().filename().string();
  manifest.model_sum = sum_of(session);
  manifest.config = run_config(decided);
  manifest.schedule = options.schedule.str();
  manifest.devices = session.options().devices;
  manifest.threads = session.threads();
  manifest.cut = cut_batch(options.batch.batch, options.batch.cut);
  return manifest;
}

void TrainCheckpoints::begin(const Flags& flags, Session& session, Trainer& trainer) {
  if (!folder_) return;
  Manifest now = manifest(flags, session, trainer);
  if (from_) {
    with_context([&] { return "resuming from " + escaped(from_->path.string()); },
                 [&] { take_up(flags, session, trainer, now); });
  }
  writer_ = std::make_unique<Checkpointer>(*folder_, session, std::move(now), options_);
  if (from_) writer_->resumed(*from_);
}

void TrainCheckpoints::take_up(const Flags& flags, Session& session, Trainer& trainer,
                               const Manifest& now) {
  const Manifest& before = from_->manifest;
  if (now.samples != before.samples) {
    throw Error("the training data have {} samples now, {} before: the order would be another",
                now.samples, before.samples);
  }
  const RunInfo& info = trainer.info();
  if (info.total_steps < before.run.step) {
    const int64_t epochs =
        (before.run.step + info.steps_per_epoch - 1) / std::max<int64_t>(info.steps_per_epoch, 1);
    throw Error(
        "the run would be over after step {}, but the checkpoint is that of step {}: give --steps "
        "{} or --epochs {} or more; for an older checkpoint move the newer folders step-* away",
        info.total_steps, before.run.step, before.run.step, epochs);
  }
  session.restore(from_->states, before.run.step);
  const std::string bad = session.first_non_finite_state();
  if (!bad.empty()) {
    throw Error(
        "{} holds values that are not finite: no step can begin with them; move {} away to go on "
        "from the one before, with a smaller --lr, a longer --warmup or a smaller --clip-norm",
        support::in_quotes(bad), escaped(from_->path.filename().string()));
  }
  trainer.resume(before.run);
  from_->states.clear();
  if (now.model_sum != before.model_sum) {
    support::notice("the tensors of {} fit: the run goes on, but not as the same run",
                    escaped(flags.model));
  }
  if (now.threads != before.threads && flags.threads == 0) {
    support::notice("{} threads now, {} before: the steps are the same to rounding", now.threads,
                    before.threads);
  }
  if (before.run.step == info.total_steps) {
    support::notice(
        "the run is finished: {} is that of its last step, {} of {}, and nothing is trained; give "
        "more {} to go on",
        escaped(from_->path.string()), before.run.step, info.total_steps,
        trainer.options().steps ? "--steps" : "--epochs");
  } else {
    support::notice("goes on from {}, step {} of {}", escaped(from_->path.string()),
                    before.run.step, info.total_steps);
  }
  if (!flags.log.empty()) log_ = cut_log(flags.log, before.run, info.steps_per_epoch);
}

}  // namespace sardonyx::tools
