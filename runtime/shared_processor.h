// The notice that other programs take a good part of the processor, and what to do about it:
// threads that wait for each other lose more than their share then.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "runtime/devices/processor_time.h"
#include "runtime/metrics.h"

namespace sardonyx::runtime {

class Session;

// "": they got most of what they asked for, or there are more of them than cores, so that they wait
// for each other.
std::string shared_processor_text(int threads, int replicas, const ProcessorTime& time);

// Says so once, after the first seconds of training.
class SharedProcessorNotice final : public TrainListener {
 public:
  explicit SharedProcessorNotice(const Session& session) : session_(session) {}
  void begin(const RunInfo&) override;
  void step(const StepRecord&) override;

 private:
  const Session& session_;
  std::chrono::steady_clock::time_point start_;
  std::optional<ProcessorClock> clock_;  // while nothing is decided
};

}  // namespace sardonyx::runtime
