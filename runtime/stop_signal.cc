#include "runtime/stop_signal.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "graph/support/error.h"

namespace sardonyx::runtime {

namespace {

std::atomic<int> g_received = 0;
static_assert(std::atomic<int>::is_always_lock_free);  // or a handler couldn't use it

extern "C" void on_stop(int signal) {
  if (g_received.exchange(signal) != 0) _exit(128 + signal);
}

}  // namespace

StopSignal::StopSignal() : stack_(static_cast<size_t>(std::max(65536L, sysconf(_SC_SIGSTKSZ)))) {
  g_received = 0;
  stack_t stack = {};
  stack.ss_sp = stack_.data();
  stack.ss_size = stack_.size();
  CHECK(sigaltstack(&stack, &before_stack_) == 0, "no stack for signals");
  struct sigaction action = {};
  action.sa_handler = on_stop;
  action.sa_flags = SA_RESTART | SA_ONSTACK;  // reading data and writing files goes on
  sigaction(SIGINT, &action, &before_int_);
  sigaction(SIGTERM, &action, &before_term_);
}

StopSignal::~StopSignal() {
  sigaction(SIGINT, &before_int_, nullptr);
  sigaction(SIGTERM, &before_term_, nullptr);
  sigaltstack(&before_stack_, nullptr);
}

int StopSignal::received() { return g_received; }

const char* StopSignal::name(int signal) { return signal == SIGTERM ? "SIGTERM" : "SIGINT"; }

}  // namespace sardonyx::runtime
