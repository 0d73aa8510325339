// How the time of a run is observed: whatever takes time reports it here when it is over, and what
// becomes of the reports is up to the recorder (runtime/run_times.h adds them up, runtime/trace.h
// keeps them). Nothing else reads a clock inside a step, and without a recorder nobody does.
#pragma once

#include <chrono>
#include <cstdint>

#include "passes/plan.h"

namespace sardonyx::runtime {

// Who reports. The loop around the steps has a track of its own.
struct Track {
  int replica = 0, thread = 0;
};
inline constexpr Track kLoopTrack{-1, 0};

struct Span {
  using Clock = std::chrono::steady_clock;
  // What `number` and `amount` are stands behind each.
  enum class What : uint8_t {
    kStep,            // `step` of a plan: the block, its rows
    kPartialSums,     // at a region's end, of what its threads added up: how many, elements
    kStateCopies,     // bindings whose result stands elsewhere: how many, bytes
    kSlice,           // of a sum over replicas, this one's part: the sum, bytes of a term
    kWait,            // blocked until the other replicas did theirs: the sum
    kFlight,          // a sum from its start to its end, see below: the sum, bytes
    kMicroBatch,      // a run of a training plan: first row, rows
    kEvaluationPart,  // a run of another plan: first row, rows
    kTrainStep,       // the step, rows
    kLoad,            // waiting for data
    kEvaluation,      // of the epoch
    kCheckpoint,      // after which step
  };
  What what;
  int64_t number = 0, amount = 0;
  const passes::Step* step = nullptr;
  Clock::time_point begin = {}, end = {};
};
// Sums over replicas are numbered from 0 in the order of their start, anew in each step. A sum's
// flight ends when the last replica has written its slice, or with the wait that was blocked until
// then. Flights overlap with everything; the other spans of a track lie in each other or apart.

class Recorder {
 public:
  virtual ~Recorder() = default;
  // On a thread of its track, one at a time there; tracks report at once.
  virtual void record(Track track, const Span& span) = 0;
};

// Reports a span from its making to its end, also when an exception ends it.
class ScopedSpan {
 public:
  ScopedSpan(Recorder* recorder, Track track, const Span& span)
      : recorder_(recorder), track_(track), span_(span) {
    if (recorder_ != nullptr) span_.begin = Span::Clock::now();
  }
  ~ScopedSpan() {
    if (recorder_ == nullptr) return;
    span_.end = Span::Clock::now();
    recorder_->record(track_, span_);
  }
  ScopedSpan(const ScopedSpan&) = delete;
  ScopedSpan& operator=(const ScopedSpan&) = delete;

 private:
  Recorder* recorder_;
  Track track_;
  Span span_;
};

}  // namespace sardonyx::runtime
