// The thread pool of one replica: the calling thread is thread 0, workers spin for a bounded time
// and then sleep.
//
// Task i always runs on thread i % size(), and a task that calls run() of its own pool again runs
// its tasks one after another: both are what makes results depend on the number of threads only.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "ops/core/parallel.h"
#include "runtime/devices/waiting.h"

namespace sardonyx::runtime {

class WorkerPool final : public ops::ThreadPool {
 public:
  // `threads` >= 1, the calling thread included.
  explicit WorkerPool(int threads) : WorkerPool(threads, waiting_of(threads), {}) {}
  // Worker i runs on cores[i]; what thread 0 runs on is up to the caller. Empty: anywhere.
  WorkerPool(int threads, Waiting waiting, std::vector<int> cores);
  ~WorkerPool() override;
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  int size() const override { return static_cast<int>(workers_.size()) + 1; }
  void run(int count, ops::FunctionRef<void(int)> task) override;

 private:
  void stop();  // joins the threads that were started
  void work(int thread);
  void run_share(int thread);

  const Waiting waiting_;
  const std::vector<int> cores_;
  std::vector<std::thread> workers_;
  int count_ = 0;
  const ops::FunctionRef<void(int)>* task_ = nullptr;
  std::atomic<uint32_t> job_{0};      // counts jobs; workers wait for it to change
  std::atomic<uint32_t> running_{0};  // workers still inside the job
  std::atomic<bool> stop_{false};
  std::mutex error_mutex_;
  std::exception_ptr error_;
};

}  // namespace sardonyx::runtime
