#include "runtime/stop_signal.h"

#include <unistd.h>

#include <atomic>

namespace sardonyx::runtime {

namespace {

std::atomic<int> g_received = 0;
static_assert(std::atomic<int>::is_always_lock_free);  // or a handler couldn't use it

extern "C" void on_stop(int signal) {
  if (g_received.exchange(signal) != 0) _exit(128 + signal);
}

}  // namespace

StopSignal::StopSignal() {
  g_received = 0;
  struct sigaction action = {};
  action.sa_handler = on_stop;
  action.sa_flags = SA_RESTART;  // reading data and writing files goes on
  sigaction(SIGINT, &action, &before_int_);
  sigaction(SIGTERM, &action, &before_term_);
}

StopSignal::~StopSignal() {
  sigaction(SIGINT, &before_int_, nullptr);
  sigaction(SIGTERM, &before_term_, nullptr);
}

int StopSignal::received() { return g_received; }

const char* StopSignal::name(int signal) { return signal == SIGTERM ? "SIGTERM" : "SIGINT"; }

}  // namespace sardonyx::runtime
