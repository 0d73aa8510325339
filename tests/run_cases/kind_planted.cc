// planted: misbehaves on request, so that the tests of run_cases see how it reports faults.
#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/run_cases/kinds.h"

namespace sardonyx::cases {

namespace {

void take_memory() {
  std::vector<std::vector<char>> hog;
  for (;;) hog.emplace_back(size_t{64} << 20, 'x');
}

}  // namespace

void run_planted(Task& task) {
  const std::string fault = task.spec.value("fault", "none");
  if (fault == "crash") std::raise(SIGSEGV);
  if (fault == "hang") std::this_thread::sleep_for(std::chrono::hours(1));
  if (fault == "memory") take_memory();
  if (fault == "check") CHECK(false, "planted");
  if (fault == "exception") throw std::runtime_error("planted");
  if (fault == "error") throw Error("a user's mistake");
  if (fault == "exit") std::quick_exit(7);
}

}  // namespace sardonyx::cases
