// Cases in child processes: a crash, a hang or a memory hog is one failure, never the end of the
// run.
//
// Children are forked before this process has any thread, so they start from a clean state. Memory
// is limited by address space (not under a sanitizer, which reserves terabytes), time by the CPU
// and by the clock.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/run_cases/verdict.h"

namespace sardonyx::cases {

struct Limits {
  double seconds = 60;
  int64_t megabytes = 4096;
};

struct Job {
  // In the child. It calls `begin` when the limits begin to count.
  std::function<Verdict(const std::function<void()>& begin)> run;
  Limits limits;
};

enum class Output : uint8_t { kHide, kShow };

// Runs all jobs, at most `parallel` at once; `done` is called in the order of the jobs.
void run_jobs(const std::vector<Job>& jobs, int parallel, Output output,
              const std::function<void(size_t, const Verdict&)>& done);

}  // namespace sardonyx::cases
