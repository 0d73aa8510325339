#include "runtime/run_times.h"

#include <algorithm>

namespace sardonyx::runtime {

namespace {

double seconds_between(Span::Clock::time_point from, Span::Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

RunTimes::RunTimes(int replicas, int threads_of_each)
    : threads_(threads_of_each), of_threads_(static_cast<size_t>(replicas * threads_of_each)) {}

void RunTimes::record(Track track, const Span& span) {
  if (track.replica < 0) return;
  OfThread& own = of_threads_[static_cast<size_t>(track.replica * threads_ + track.thread)];
  const double seconds = seconds_between(span.begin, span.end);
  switch (span.what) {
    case Span::What::kStep: {
      Measured& measured = own.steps[span.step];
      measured.seconds += seconds;
      ++measured.runs;
      return;
    }
    case Span::What::kSlice:
      own.communication.adding += seconds;
      return;
    case Span::What::kWait:
      own.communication.blocked += seconds;
      return;
    case Span::What::kFlight: {
      // Several at once count once. They end in the order in which they began.
      const auto begin = std::max(span.begin, own.flown);
      own.communication.in_flight += std::max(0.0, seconds_between(begin, span.end));
      own.flown = std::max(own.flown, span.end);
      return;
    }
    default:
      return;
  }
}

std::vector<StepTime> RunTimes::steps(const passes::Plan& plan) const {
  std::vector<StepTime> times;
  for (const passes::Region& region : plan.regions) {
    const double threads = region.blocked() ? plan.threads : 1;
    for (size_t i = 0; i < region.steps.size(); ++i) {
      StepTime time{&region.steps[i]};
      const auto add = [&](const passes::Step& step) {
        for (int thread = 0; thread < threads_; ++thread) {
          const auto& steps = of_threads_[static_cast<size_t>(thread)].steps;
          const auto it = steps.find(&step);
          if (it == steps.end()) continue;
          time.seconds += it->second.seconds / threads;
          time.flops += step.flops * static_cast<double>(it->second.runs);
        }
      };
      add(region.steps[i]);
      if (i < region.tail_steps.size()) add(region.tail_steps[i]);
      times.push_back(time);
    }
  }
  return times;
}

CommunicationTime RunTimes::communication(int64_t steps) const {
  CommunicationTime mean;
  const size_t replicas = of_threads_.size() / static_cast<size_t>(threads_);
  const double count = static_cast<double>(replicas) * static_cast<double>(steps);
  for (const OfThread& own : of_threads_) {
    mean.in_flight += own.communication.in_flight / count;
    mean.adding += own.communication.adding / count;
    mean.blocked += own.communication.blocked / count;
  }
  return mean;
}

}  // namespace sardonyx::runtime
