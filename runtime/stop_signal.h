// SIGINT and SIGTERM as a wish to stop: the step in progress is finished and the result saved. A
// second signal ends the process at once.
#pragma once

#include <csignal>
#include <cstddef>
#include <vector>

namespace sardonyx::runtime {

// Catches both signals while it lives; one at a time. Made on the thread that computes: its handler
// needs a stack of its own there, because generated kernels of oneDNN keep a scratch buffer in the
// stack pointer, and the frame of a signal would overwrite what lies below. The threads of a
// WorkerPool take no signals.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // The signal that came, or 0. Exit codes are 128 + signal.
  static int received();
  static const char* name(int signal);  // "SIGINT", "SIGTERM"

 private:
  std::vector<std::byte> stack_;
  stack_t before_stack_;
  struct sigaction before_int_, before_term_;
};

}  // namespace sardonyx::runtime
