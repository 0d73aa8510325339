// The part of `train` that keeps checkpoints and takes one up again; what they are stands in
// runtime/checkpoint.h. Without --checkpoint nothing here does anything.
#pragma once

#include <memory>
#include <optional>

#include "runtime/checkpointer.h"
#include "runtime/feed.h"
#include "runtime/log_cut.h"
#include "runtime/run_config.h"
#include "runtime/trainer.h"

namespace sardonyx::tools {

class TrainCheckpoints {
 public:
  // Takes the folder. With --resume it reads the newest checkpoint, and flags that weren't given
  // get the values of that run. Throws UsageError and Error.
  explicit TrainCheckpoints(runtime::Flags& flags);

  // The kernels of the run that is resumed.
  void replay(runtime::SessionOptions& options) const;
  // Before anything else is made of the model: throws Error when the checkpoint is of another one,
  // warns when it may be.
  void check_model(const runtime::Flags& flags, const runtime::Session& session) const;
  // Behind Trainer::prepare(): puts the checkpoint's values into session and trainer, cuts the log.
  void begin(const runtime::Flags& flags, runtime::Session& session, runtime::Trainer& trainer);
  bool resumed() const { return from_.has_value(); }
  const runtime::LogRecords& log() const { return log_; }

  runtime::Checkpointer* writer() { return writer_.get(); }  // null without --checkpoint

 private:
  runtime::Manifest manifest(const runtime::Flags& flags, const runtime::Session& session,
                             const runtime::Trainer& trainer) const;
  void take_up(const runtime::Flags& flags, runtime::Session& session, runtime::Trainer& trainer,
               const runtime::Manifest& now);

  runtime::CheckpointOptions options_;
  std::optional<runtime::CheckpointFolder> folder_;
  std::optional<runtime::Checkpoint> from_;
  runtime::LogRecords log_;
  std::unique_ptr<runtime::Checkpointer> writer_;
};

}  // namespace sardonyx::tools
