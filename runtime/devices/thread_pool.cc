#include "runtime/devices/thread_pool.h"

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

WorkerPool::WorkerPool(int threads, Waiting waiting, std::vector<int> cores)
    : waiting_(waiting), cores_(std::move(cores)) {
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

void WorkerPool::run(int count, ops::FunctionRef<void(int)> task) {
  if (count <= 0) return;
  if (pool_of_task == this || workers_.empty() || count == 1) {
    for (int i = 0; i < count; ++i) task(i);
    return;
  }
  count_ = count;
  task_ = &task;
  error_ = nullptr;
  running_.store(static_cast<uint32_t>(workers_.size()), std::memory_order_relaxed);
  job_.fetch_add(1, std::memory_order_release);
  job_.notify_all();
  run_share(0);
  for (uint32_t left = running_.load(std::memory_order_acquire); left != 0;
       left = running_.load(std::memory_order_acquire)) {
    wait_for_change(running_, left, waiting_);
  }
  task_ = nullptr;
  if (error_ != nullptr) std::rethrow_exception(error_);
}

void WorkerPool::run_share(int thread) {
  const WorkerPool* outer = std::exchange(pool_of_task, this);
  try {
    for (int i = thread; i < count_; i += size()) (*task_)(i);
  } catch (...) {
    const std::lock_guard lock(error_mutex_);
    if (error_ == nullptr) error_ = std::current_exception();
  }
  pool_of_task = outer;
}

void WorkerPool::work(int thread) {
  block_signals();
  const ScopedCore core(cores_.empty() ? -1 : cores_[static_cast<size_t>(thread)]);
  uint32_t seen = 0;
  while (true) {
    wait_for_change(job_, seen, waiting_);
    ++seen;
    if (stop_.load(std::memory_order_relaxed)) return;
    run_share(thread);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_one();
  }
}

}  // namespace sardonyx::runtime
