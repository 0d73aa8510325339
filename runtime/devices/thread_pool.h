// The thread pool of one replica: the calling thread is thread 0, workers spin for a bounded time
// and then sleep.
//
// The tasks i, i + size(), ... are the share of thread i. It runs them in order, unless a thread
// that has done its own share finds that one not begun: then that thread runs all of it. So a run
// ends as soon as the work is done, also when the system lets a worker wait for a processor that
// another program has. A share is never divided, and a task that calls run() of its own pool again
// runs its tasks one after another: both are what makes results depend on the number of threads
// only.
//
// Tasks may wait for each other (barriers of oneDNN, sums of replicas): every thread begins with
// its own share, so a share that isn't begun has a thread on its way that is free to run it.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "ops/core/parallel.h"
#include "runtime/devices/waiting.h"

namespace sardonyx::runtime {

// Who runs a share that its thread hasn't begun: only that thread, where memory has to lie near it.
enum class Shares : uint8_t { kAnyThread, kOwnThread };

class WorkerPool final : public ops::ThreadPool {
 public:
  // `threads` >= 1, the calling thread included.
  explicit WorkerPool(int threads) : WorkerPool(threads, waiting_of(threads), {}) {}
  // Worker i runs on cores[i]; what thread 0 runs on is up to the caller. Empty: anywhere.
  WorkerPool(int threads, Waiting waiting, std::vector<int> cores,
             Shares shares = Shares::kAnyThread);
  ~WorkerPool() override;
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  int size() const override { return static_cast<int>(workers_.size()) + 1; }
  // Of the workers: as the system numbers them, once each has begun.
  std::vector<pid_t> worker_ids() const;
  void run(int count, ops::FunctionRef<void(int)> task) override;

 private:
  void stop();  // joins the threads that were started
  void work(int thread);
  // Its own share, then those that nobody has begun.
  void run_shares(int thread, uint32_t job);
  void run_share(int share);

  // The last job in which the share was begun. Job n can be taken here only while it runs: it isn't
  // over before every share has been.
  struct alignas(64) Share {
    std::atomic<uint32_t> job{0};
    std::atomic<pid_t> thread{0};  // whose share it is; 0: it hasn't begun, or is the caller
    bool take(uint32_t number) {
      uint32_t before = number - 1;
      return job.compare_exchange_strong(before, number, std::memory_order_acq_rel);
    }
  };

  const Waiting waiting_;
  const std::vector<int> cores_;
  const Shares whose_;
  std::vector<Share> shares_;
  std::vector<std::thread> workers_;
  int count_ = 0;
  const ops::FunctionRef<void(int)>* task_ = nullptr;
  std::atomic<uint32_t> job_{0};   // counts jobs; workers wait for it to change
  std::atomic<uint32_t> left_{0};  // shares of the job that aren't done
  std::atomic<bool> stop_{false};
  std::mutex error_mutex_;
  std::exception_ptr error_;
};

}  // namespace sardonyx::runtime
