#include "runtime/devices/processor_time.h"

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <fstream>
#include <utility>

#include "graph/support/error.h"

namespace sardonyx::runtime {

namespace {

// Of all threads of the process.
double process_seconds() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

std::optional<ProcessorTime> processor_time(const std::vector<pid_t>& threads) {
  ProcessorTime sum;
  for (const pid_t thread : threads) {
    std::ifstream file(fmt::format("/proc/self/task/{}/schedstat", thread));
    int64_t ran = 0, waited = 0;  // nanoseconds
    if (!(file >> ran >> waited)) return std::nullopt;
    sum.ran += 1e-9 * static_cast<double>(ran);
    sum.waited += 1e-9 * static_cast<double>(waited);
  }
  return sum;
}

ProcessorClock::ProcessorClock(std::vector<pid_t> threads)
    : threads_(std::move(threads)),
      start_(processor_time(threads_)),
      process_start_(process_seconds()) {}

ProcessorTime ProcessorClock::elapsed() const {
  const std::optional<ProcessorTime> now = processor_time(threads_);
  if (!now || !start_) return {};
  ProcessorTime time{now->ran - start_->ran, now->waited - start_->waited};
  const double others = std::max(0.0, process_seconds() - process_start_ - time.ran);
  time.waited = std::max(0.0, time.waited - others);
  return time;
}

}  // namespace sardonyx::runtime
