// Where the time of runs went, added up: per step of a plan, and between replicas.
//
// Threads share no memory while they report. Read when no run is going on.
#pragma once

#include <unordered_map>
#include <vector>

#include "runtime/devices/recorder.h"

namespace sardonyx::runtime {

struct StepTime {
  const passes::Step* step = nullptr;
  // Wall time; in a blocked region the sum over threads divided by their number.
  double seconds = 0;
  double flops = 0;  // of all runs, where the operator counts them
};

// Of sums over replicas, in seconds.
struct CommunicationTime {
  double in_flight = 0;  // at least one sum was started and not yet complete
  double adding = 0;     // of it, this replica added its slices
  double blocked = 0;    // of it, this replica waited for others and did nothing
  // The share of the time in flight in which the replica computed. Adding is not hidden: it is done
  // by the threads that would compute. 0 when nothing was in flight.
  double hidden() const { return in_flight > 0 ? 1 - (adding + blocked) / in_flight : 0; }
};

class RunTimes final : public Recorder {
 public:
  RunTimes(int replicas, int threads_of_each);
  void record(Track track, const Span& span) override;

  // Of the first replica: one entry per step of the plan, in its order.
  std::vector<StepTime> steps(const passes::Plan& plan) const;
  CommunicationTime communication(int64_t steps) const;  // mean per replica and step

 private:
  struct Measured {
    double seconds = 0;
    int64_t runs = 0;
  };
  struct alignas(64) OfThread {
    std::unordered_map<const passes::Step*, Measured> steps;
    CommunicationTime communication;
    Span::Clock::time_point flown;  // until here the time in flight is counted
  };
  const int threads_;
  std::vector<OfThread> of_threads_;  // replica by replica
};

}  // namespace sardonyx::runtime
