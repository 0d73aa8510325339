#include "runtime/checkpointer.h"

#include "graph/support/error.h"
#include "graph/support/log.h"
#include "graph/support/text.h"
#include "runtime/text.h"
#include "runtime/usage.h"

namespace sardonyx::runtime {

CheckpointOptions checkpoint_options(const Flags& flags) {
  CheckpointOptions options;
  if (flags.checkpoint.empty()) {
    const char* lone = flags.resume                      ? "--resume"
                       : flags.keep                      ? "--keep"
                       : !flags.checkpoint_every.empty() ? "--checkpoint-every"
                                                         : nullptr;
    if (lone != nullptr) throw UsageError("{} needs --checkpoint DIR", lone);
    return options;
  }
  options.keep = flags.keep.value_or(options.keep);
  if (options.keep < 1) throw UsageError("--keep {}: expected at least 1", options.keep);
  const std::string& text = flags.checkpoint_every;
  if (text.empty()) return options;
  const size_t unit = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto count = parse_whole(text.substr(0, unit));
  const std::string word = text.substr(unit);
  const bool epochs = word == "epochs" || word == "epoch";
  const bool steps = word.empty() || word == "steps" || word == "step";
  if (!count || *count < 1 || (!epochs && !steps)) {
    throw UsageError(
        "--checkpoint-every '{}': expected a number of steps, or of epochs as in 2epochs", text);
  }
  options.every = *count;
  options.unit = epochs ? CheckpointOptions::Unit::kEpochs : CheckpointOptions::Unit::kSteps;
  return options;
}

Checkpointer::Checkpointer(CheckpointFolder& folder, const Session& session, Manifest manifest,
                           CheckpointOptions options)
    : folder_(folder),
      session_(session),
      manifest_(std::move(manifest)),
      options_(std::move(options)) {}

void Checkpointer::resumed(const Checkpoint& checkpoint) {
  tried_ = checkpoint.manifest.run.step;
  newest_ = checkpoint.path.string();
}

bool Checkpointer::due(const RunState& run) const {
  if (options_.unit == CheckpointOptions::Unit::kSteps) return run.step % options_.every == 0;
  return run.position.position == 0 && run.position.epoch % options_.every == 0;
}

void Checkpointer::border(const RunState& run) {
  if (!due(run)) return;
  write(run);
  if (failure_.empty()) return;
  support::warning(
      "{}\n  the run goes on; {}", failure_,
      newest_.empty() ? "there is no checkpoint so far" : "the newest checkpoint is " + newest_);
}

void Checkpointer::close(const RunState& run) { write(run); }

void Checkpointer::write(const RunState& run) {
  if (run.step == tried_) return;
  const ScopedSpan span(session_.recorder(), kLoopTrack, {Span::What::kCheckpoint, run.step});
  tried_ = run.step;
  manifest_.run = run;
  manifest_.kernels = session_.kernel_choices();
  failure_.clear();
  const std::string bad = session_.first_non_finite_state();
  if (!bad.empty()) {
    failure_ = fmt::format(
        "after step {} {} holds values that are not finite, which are not kept; a smaller --lr or "
        "--warmup usually helps",
        run.step, support::in_quotes(bad));
    return;
  }
  try {
    newest_ = folder_
                  .write(manifest_, session_.saved_states(),
                         [&](const std::string& name) { return session_.state(name); })
                  .string();
  } catch (const Error& error) {
    failure_ = error.what();
    return;
  }
  try {
    folder_.keep_newest(options_.keep);
  } catch (const Error& error) {
    support::warning("an old checkpoint stays: {}", error.what());
  }
}

}  // namespace sardonyx::runtime
