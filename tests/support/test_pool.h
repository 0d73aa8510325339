// A thread pool for tests: starts its threads anew for every call, so that a race is as likely as
// possible and nothing has to be shut down. runtime/devices/thread_pool is the real one.
#pragma once

#include "ops/core/parallel.h"

namespace sardonyx::test {

class TestPool final : public ops::ThreadPool {
 public:
  explicit TestPool(int threads) : threads_(threads) {}
  int size() const override { return threads_; }
  void run(int count, ops::FunctionRef<void(int)> task) override;

 private:
  int threads_;
};

}  // namespace sardonyx::test
