// The file of --log when a run is resumed: it is cut back to the step that the checkpoint holds, so
// that the run goes on in it and no step is there twice.
#pragma once

#include <string>
#include <vector>

#include "runtime/metrics.h"
#include "runtime/run_state.h"

namespace sardonyx::runtime {

// What the log keeps, as it was reported.
struct LogRecords {
  std::vector<StepRecord> steps;
  std::vector<EpochRecord> epochs;
};

// Cuts the file and returns what is left in it. A file that isn't there gives nothing; steps that
// are missing give a notice. Throws Error when the file is no log, and leaves it as it is then.
LogRecords cut_log(const std::string& path, const RunState& run, int64_t steps_per_epoch);

}  // namespace sardonyx::runtime
