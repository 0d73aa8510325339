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
  friend bool operator==(const EpochSums&, const EpochSums&) = default;
};

struct RunState {
  int64_t step = 0;          // steps done
  SamplerPosition position;  // of the next batch
  EpochSums sums;            // of the epoch that is under way; zeros between two epochs
  double seconds = 0;        // of the finished epochs
  // By the evaluations that any longer run makes too, not by one that only the run's end brought.
  std::optional<double> best_test_accuracy;
  friend bool operator==(const RunState&, const RunState&) = default;
};

}  // namespace sardonyx::runtime
