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
  int none = 0;
  if (!g_received.compare_exchange_strong(none, signal) && signal != SIGHUP) _exit(128 + signal);
}

}  // namespace

StopSignal::StopSignal()
    : stack_(static_cast<size_t>(std::max(65536L, sysconf(_SC_SIGSTKSZ)))),
      caught_{{{SIGINT, {}}, {SIGTERM, {}}, {SIGHUP, {}}}} {
  g_received = 0;
  stack_t stack = {};
  stack.ss_sp = stack_.data();
  stack.ss_size = stack_.size();
  CHECK(sigaltstack(&stack, &before_stack_) == 0, "no stack for signals");
  struct sigaction action = {};
  action.sa_handler = on_stop;
  action.sa_flags = SA_RESTART | SA_ONSTACK;  // reading data and writing files goes on
  for (auto& [signal, before] : caught_) {
    sigaction(signal, &action, &before);
    const bool stays = signal == SIGHUP && before.sa_handler == SIG_IGN;
    if (stays) sigaction(signal, &before, nullptr);
  }
}

StopSignal::~StopSignal() {
  for (const auto& [signal, before] : caught_) sigaction(signal, &before, nullptr);
  sigaltstack(&before_stack_, nullptr);
}

int StopSignal::received() { return g_received; }

const char* StopSignal::name(int signal) {
  switch (signal) {
    case SIGHUP:
      return "SIGHUP";
    case SIGTERM:
      return "SIGTERM";
    default:
      return "SIGINT";
  }
}

}  // namespace sardonyx::runtime
