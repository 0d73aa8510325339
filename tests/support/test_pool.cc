#include "tests/support/test_pool.h"

#include <exception>
#include <thread>
#include <vector>

namespace sardonyx::test {

namespace {
thread_local bool inside_task = false;
}

void TestPool::run(int count, ops::FunctionRef<void(int)> task) {
  if (inside_task || threads_ == 1) {
    for (int i = 0; i < count; ++i) task(i);
    return;
  }
  std::vector<std::exception_ptr> errors(threads_);
  const auto work = [&](int thread) {
    inside_task = true;
    try {
      for (int i = thread; i < count; i += threads_) task(i);
    } catch (...) {
      errors[thread] = std::current_exception();
    }
    inside_task = false;
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads_; ++t) others.emplace_back(work, t);
  work(0);
  for (std::thread& thread : others) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace sardonyx::test
