// A run as a picture of time: every step of the plan on every thread, the sums between replicas and
// the waiting for them, in the Trace Event Format that chrome://tracing and Perfetto open.
//
// What is kept while training runs has a fixed size: a thread that reports only writes into memory
// of its own. When one is full the trace ends with the last step that is in it as a whole.
#pragma once

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/devices/recorder.h"
#include "runtime/metrics.h"

namespace sardonyx::runtime {

class Session;

// Spans of all threads together: some 30 MB of JSON.
inline constexpr size_t kMostSpans = size_t{1} << 17;

class Trace final : public Recorder {
 public:
  // `replicas`: what each is called. The plans whose steps are reported outlive the trace.
  Trace(const std::vector<std::string>& replicas, int threads_of_each,
        size_t most_spans = kMostSpans);
  void record(Track track, const Span& span) override;

  // The rest is for when no run is going on.
  bool full() const { return full_.load(std::memory_order_relaxed); }
  int64_t steps() const { return steps_; }  // training steps that are in it as a whole
  std::string json() const;

 private:
  struct alignas(64) Lane {
    std::string process, thread;
    int pid = 0, tid = 0;
    std::vector<Span> spans;  // the first `used` are there
    size_t used = 0;
  };
  const int threads_;
  const Span::Clock::time_point origin_;
  std::vector<Lane> lanes_;  // replica by replica, at last the loop's
  std::atomic<bool> full_{false};
  int64_t steps_ = 0;
  Span::Clock::time_point whole_until_;  // end of the last step that is in it as a whole
};

// Traces a session from here on, into a file that appears when the trace is full or the run ends.
class TraceFile final : public TrainListener {
 public:
  // The session outlives it and gets no other recorder meanwhile.
  TraceFile(Session& session, std::filesystem::path path, size_t most_spans = kMostSpans);
  ~TraceFile() override;
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  // A write that fails is a warning here.
  void border(const RunState& run) override;
  void end(const RunSummary& summary) override;
  // Ends the trace and writes it; afterwards nothing. Throws Error when it can't be written.
  void close();

 private:
  void try_close();

  Session& session_;
  const std::filesystem::path path_;
  Trace trace_;
  bool closed_ = false;
};

}  // namespace sardonyx::runtime
