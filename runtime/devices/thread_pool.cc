#include "runtime/devices/thread_pool.h"

#include <algorithm>
#include <system_error>

#include "graph/support/error.h"

namespace sardonyx::runtime {

namespace {

thread_local bool inside_task = false;

// About 50 microseconds of polling before a thread goes to sleep: longer than the serial gaps
// inside a step.
constexpr int kSpins = 20000;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

WorkerPool::WorkerPool(int threads) {
  CHECK(threads >= 1);
  const auto cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  spins_ = threads <= cores ? kSpins : 0;
  try {
    for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
  } catch (const std::system_error& error) {
    stop();
    throw Error("can't start {} threads: {}; fewer --threads need less", threads,
                error.code().message());
  }
}

WorkerPool::~WorkerPool() { stop(); }

void WorkerPool::stop() {
  stop_.store(true, std::memory_order_relaxed);
  job_.fetch_add(1, std::memory_order_release);
  job_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void WorkerPool::run(int count, ops::FunctionRef<void(int)> task) {
  if (count <= 0) return;
  if (inside_task || workers_.empty() || count == 1) {
    for (int i = 0; i < count; ++i) task(i);
    return;
  }
  count_ = count;
  task_ = &task;
  error_ = nullptr;
  running_.store(static_cast<int32_t>(workers_.size()), std::memory_order_relaxed);
  job_.fetch_add(1, std::memory_order_release);
  job_.notify_all();
  run_share(0);
  wait_for_workers();
  task_ = nullptr;
  if (error_ != nullptr) std::rethrow_exception(error_);
}

void WorkerPool::run_share(int thread) {
  inside_task = true;
  try {
    for (int i = thread; i < count_; i += size()) (*task_)(i);
  } catch (...) {
    const std::lock_guard lock(error_mutex_);
    if (error_ == nullptr) error_ = std::current_exception();
  }
  inside_task = false;
}

void WorkerPool::work(int thread) {
  uint32_t seen = 0;
  while (true) {
    wait_for_job(seen);
    ++seen;
    if (stop_.load(std::memory_order_relaxed)) return;
    run_share(thread);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_one();
  }
}

void WorkerPool::wait_for_job(uint32_t seen) const {
  for (int i = 0; i < spins_; ++i) {
    if (job_.load(std::memory_order_acquire) != seen) return;
    pause();
  }
  while (job_.load(std::memory_order_acquire) == seen) job_.wait(seen, std::memory_order_acquire);
}

void WorkerPool::wait_for_workers() const {
  for (int i = 0; i < spins_; ++i) {
    if (running_.load(std::memory_order_acquire) == 0) return;
    pause();
  }
  for (int32_t left = running_.load(std::memory_order_acquire); left != 0;
       left = running_.load(std::memory_order_acquire)) {
    running_.wait(left, std::memory_order_acquire);
  }
}

}  // namespace sardonyx::runtime
