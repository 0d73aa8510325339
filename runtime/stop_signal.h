// SIGINT, SIGTERM and SIGHUP (the terminal is closed) as a wish to stop: the step in progress is
// finished and the result saved. A second SIGINT or SIGTERM ends the process at once; a second
// SIGHUP doesn't, because both the kernel and the shell send one when a terminal goes.
#pragma once

#include <array>
#include <csignal>
#include <cstddef>
#include <vector>

namespace sardonyx::runtime {

// Catches them while it lives; one object at a time. A SIGHUP that is ignored, as under nohup,
// stays so. Made on the thread that computes: its handler needs a stack of its own there, because
// generated kernels of oneDNN keep a scratch buffer in the stack pointer, and the frame of a signal
// would overwrite what lies below. The threads of a WorkerPool take no signals.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // The signal that came, or 0. Exit codes are 128 + signal.
  static int received();
  static const char* name(int signal);  // "SIGINT", "SIGTERM", "SIGHUP"

 private:
  struct Caught {
    int signal;
    struct sigaction before;
  };
  std::vector<std::byte> stack_;
  stack_t before_stack_;
  std::array<Caught, 3> caught_;
};

}  // namespace sardonyx::runtime
