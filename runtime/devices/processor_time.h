// How long threads ran, and how long they waited for a processor that had other work: what tells a
// slow program from a shared machine. The system keeps both for every thread.
#pragma once

#include <sys/types.h>

#include <optional>
#include <vector>

namespace sardonyx::runtime {

struct ProcessorTime {
  double ran = 0, waited = 0;  // seconds; waited: ready to run, and not running

  // Of the time in which they could have run; 1: they never waited.
  double share() const { return waited > 0 ? ran / (ran + waited) : 1; }
};

// Of threads of this process since their start, together. nullopt: the system doesn't say, or one
// of them is over.
std::optional<ProcessorTime> processor_time(const std::vector<pid_t>& threads);

// What threads got from now on.
class ProcessorClock {
 public:
  explicit ProcessorClock(std::vector<pid_t> threads);
  // Since the clock was made. What this process's other threads (loaders) took isn't counted as
  // waiting: nobody shares the processor then. Nothing known: no time at all.
  ProcessorTime elapsed() const;

 private:
  std::vector<pid_t> threads_;
  std::optional<ProcessorTime> start_;
  double process_start_;
};

}  // namespace sardonyx::runtime
