#include "runtime/devices/thread_pool.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <system_error>
#include <utility>

#include "graph/support/error.h"
#include "runtime/devices/cores.h"

namespace sardonyx::runtime {

namespace {

// But for those that a fault of the thread itself raises. Why: runtime/stop_signal.h.
void block_signals() {
  sigset_t blocked;
  sigfillset(&blocked);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP}) {
    sigdelset(&blocked, fault);
  }
  pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
}

// The pool whose task the current thread is in.
thread_local const WorkerPool* pool_of_task = nullptr;

}  // namespace

WorkerPool::WorkerPool(int threads, Waiting waiting, std::vector<int> cores, Shares shares)
    : waiting_(waiting),
      cores_(std::move(cores)),
      whose_(shares),
      shares_(static_cast<size_t>(std::max(threads, 1))) {
  CHECK(threads >= 1 && (cores_.empty() || static_cast<int>(cores_.size()) == threads));
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

std::vector<pid_t> WorkerPool::worker_ids() const {
  std::vector<pid_t> ids;
  for (const Share& share : shares_) {
    const pid_t id = share.thread.load(std::memory_order_relaxed);
    if (id != 0) ids.push_back(id);
  }
  return ids;
}

void WorkerPool::run(int count, ops::FunctionRef<void(int)> task) {
  if (count <= 0) return;
  if (pool_of_task == this || workers_.empty() || count == 1) {
    for (int i = 0; i < count; ++i) task(i);
    return;
  }
  count_ = count;
  task_ = &task;
  error_ = nullptr;
  left_.store(static_cast<uint32_t>(size()), std::memory_order_relaxed);
  const uint32_t job = job_.fetch_add(1, std::memory_order_release) + 1;
  job_.notify_all();
  run_shares(0, job);
  for (uint32_t left = left_.load(std::memory_order_acquire); left != 0;
       left = left_.load(std::memory_order_acquire)) {
    wait_for_change(left_, left, waiting_);
  }
  task_ = nullptr;
  if (error_ != nullptr) std::rethrow_exception(error_);
}

void WorkerPool::run_shares(int thread, uint32_t job) {
  const int most = whose_ == Shares::kAnyThread ? size() : 1;
  for (int i = 0; i < most; ++i) {
    const int share = (thread + i) % size();
    if (!shares_[static_cast<size_t>(share)].take(job)) continue;
    run_share(share);
    if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) left_.notify_one();
  }
}

void WorkerPool::run_share(int share) {
  const WorkerPool* outer = std::exchange(pool_of_task, this);
  try {
    for (int i = share; i < count_; i += size()) (*task_)(i);
  } catch (...) {
    const std::lock_guard lock(error_mutex_);
    if (error_ == nullptr) error_ = std::current_exception();
  }
  pool_of_task = outer;
}

void WorkerPool::work(int thread) {
  block_signals();
  shares_[static_cast<size_t>(thread)].thread.store(gettid(), std::memory_order_relaxed);
  const ScopedCore core(cores_.empty() ? -1 : cores_[static_cast<size_t>(thread)]);
  uint32_t seen = 0;
  while (true) {
    wait_for_change(job_, seen, waiting_);
    seen = job_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) return;
    run_shares(thread, seen);
  }
}

}  // namespace sardonyx::runtime
