// When a run writes its checkpoints, and what happens when it can't.
//
// A checkpoint in the middle that fails is a warning: the run goes on, and the ones before stand.
// One whose values aren't finite fails, too: no run could go on from it, and it would push out one
// from which a run can.
// Whether the last state of the run could be kept is what failure() says in the end.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/checkpoint.h"
#include "runtime/config.h"
#include "runtime/metrics.h"

namespace sardonyx::runtime {

struct CheckpointOptions {
  enum class Unit : uint8_t { kSteps, kEpochs };
  int64_t every = 1;
  Unit unit = Unit::kEpochs;
  int64_t keep = 3;
};
// Throws UsageError: no count, or one of these flags without --checkpoint.
CheckpointOptions checkpoint_options(const Flags& flags);

class Checkpointer final : public TrainListener {
 public:
  // All outlive it. `manifest` holds what doesn't change from step to step.
  Checkpointer(CheckpointFolder& folder, const Session& session, Manifest manifest,
               CheckpointOptions options);

  // The state of `step` is there already: the run was resumed from it.
  void resumed(const Checkpoint& checkpoint);
  void border(const RunState& run) override;
  // Where the run ends or was stopped: says nothing, failure() does.
  void close(const RunState& run);

  const std::string& newest() const { return newest_; }    // path; "" when there is none
  const std::string& failure() const { return failure_; }  // of the last attempt; "" when it worked

 private:
  bool due(const RunState& run) const;
  void write(const RunState& run);

  CheckpointFolder& folder_;
  const Session& session_;
  Manifest manifest_;
  CheckpointOptions options_;
  int64_t tried_ = -1;  // step of the last attempt
  std::string newest_, failure_;
};

}  // namespace sardonyx::runtime
