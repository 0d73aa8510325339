// Where a run stands, beside the values in its session: together they are all that a stopped run
// needs to go on as if it had never been stopped. A checkpoint keeps both.
//
// Whatever the trainer carries from one step to the next belongs in here: what stays a mere member
// of the trainer is lost when the run is resumed.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/data/sampler.h"

namespace sardonyx::runtime {

// What one epoch adds up.
struct EpochSums {
  double loss = 0, weight = 0, correct = 0;
  double lr = 0;       // of the last step
  double seconds = 0;  // of training
  int64_t steps = 0, rows = 0;
  int64_t skipped = 0;  // of the steps; they are not in loss, weight and correct
  friend bool operator==(const EpochSums&, const EpochSums&) = default;
};

// Of the highest accuracy, or of the lowest loss where there are no classes.
struct BestEvaluation {
  std::optional<int64_t> epoch;  // nothing: there was none so far
  double loss = 0;
  std::optional<double> accuracy;
  friend bool operator==(const BestEvaluation&, const BestEvaluation&) = default;
};

struct RunState {
  int64_t step = 0;            // steps done
  SamplerPosition position;    // of the next batch
  EpochSums sums;              // of the epoch that is under way; zeros between two epochs
  double seconds = 0;          // of the finished epochs
  int64_t skipped = 0;         // steps, by --on-nan skip
  int64_t skipped_in_row = 0;  // up to the last step
  BestEvaluation best;         // so far: what the file of --save-best holds
  // Without evaluations that only the end of a run brought, which a longer run doesn't make: early
  // stop goes by this one.
  BestEvaluation best_regular;
  friend bool operator==(const RunState&, const RunState&) = default;
};

}  // namespace sardonyx::runtime
