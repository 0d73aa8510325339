// SIGINT and SIGTERM as a wish to stop: the step in progress is finished and the result saved. A
// second signal ends the process at once.
#pragma once

#include <csignal>

namespace sardonyx::runtime {

// Catches both signals while it lives; one at a time.
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
  struct sigaction before_int_, before_term_;
};

}  // namespace sardonyx::runtime
