// A bounded queue whose slots are the buffers themselves.
#include "runtime/data/prefetch.h"

#include <sched.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "graph/support/error.h"

namespace sardonyx::runtime {

namespace {

// Small enough for an even finish, large enough that claiming costs nothing.
int64_t piece_of(int64_t rows, int most_threads) {
  return std::max<int64_t>(1, rows / (4 * int64_t{most_threads}));
}

// Of the calling thread. Where the system refuses, it loads as before.
void take_idle_priority() {
  const sched_param none = {};
  sched_setscheduler(0, SCHED_IDLE, &none);
}

}  // namespace

Prefetcher::Prefetcher(std::shared_ptr<const Dataset> dataset, Sampler sampler,
                       PrefetchOptions options)
    : dataset_(std::move(dataset)), sampler_(std::move(sampler)), options_(std::move(options)) {
  CHECK(options_.depth >= 0);
  if (options_.most_threads <= 0) {
    options_.most_threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  }
  int64_t capacity = 0;
  for (int64_t size : sampler_.batch_sizes()) {
    capacity = std::max(capacity, options_.slice ? options_.slice(size).count : size);
  }
  // One more than the depth: the batch the consumer holds.
  for (int i = 0; i <= options_.depth; ++i) ring_.emplace_back(*dataset_, capacity);
  if (options_.depth == 0) return;
  try {
    threads_.emplace_back([this] { run(); });
  } catch (const std::system_error& error) {
    throw Error("can't start a thread that loads the data: {}", error.code().message());
  }
}

Prefetcher::~Prefetcher() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Prefetcher::begin(Slot& slot) {
  const Draw draw = sampler_.next();
  const int64_t size = static_cast<int64_t>(draw.indices.size());
  slot.buffer.begin(draw, options_.slice ? options_.slice(size) : BatchSlice{0, size});
  slot.rows = slot.buffer.batch().slice.count;
  slot.rows_claimed = slot.rows_done = 0;
}

bool Prefetcher::may_open() const {
  const int64_t slots = static_cast<int64_t>(ring_.size());
  return !opening_ && !failed_ && opened_ < options_.batches && opened_ - released_ < slots;
}

bool Prefetcher::may_claim() {
  if (opened_ == 0) return false;
  const Slot& slot = slot_of(opened_ - 1);
  return slot.rows_claimed < slot.rows;
}

bool Prefetcher::is_over() const { return stop_ || failed_ || opened_ == options_.batches; }

void Prefetcher::fail(Slot& slot, std::exception_ptr error, int64_t first_row) {
  failed_ = true;
  if (slot.error && slot.bad_piece < first_row) return;
  slot.error = std::move(error);
  slot.bad_piece = first_row;
}

// A new order of all samples takes its time, so the lock is given back meanwhile.
void Prefetcher::open_batch(std::unique_lock<std::mutex>& lock) {
  Slot& slot = slot_of(opened_);
  opening_ = true;
  lock.unlock();
  std::exception_ptr error;
  try {
    begin(slot);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  if (error) {
    slot.rows = slot.rows_claimed = slot.rows_done = 0;
    fail(slot, error, 0);
  }
  opening_ = false;
  ++opened_;
}

void Prefetcher::fill_piece(std::unique_lock<std::mutex>& lock) {
  Slot& slot = slot_of(opened_ - 1);
  const int64_t first = slot.rows_claimed;
  const int64_t count =
      std::min(piece_of(slot.rows, options_.most_threads), slot.rows - slot.rows_claimed);
  slot.rows_claimed += count;
  lock.unlock();
  std::exception_ptr error;
  try {
    slot.buffer.fill_rows(*dataset_, first, count);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  if (error) fail(slot, error, first);
  slot.rows_done += count;
}

// One piece of work; false: there is none now.
bool Prefetcher::work(std::unique_lock<std::mutex>& lock) {
  if (may_claim()) {
    fill_piece(lock);
    if (!slot_of(filled_).done()) return true;
  } else if (may_open()) {
    open_batch(lock);
  } else {
    return false;
  }
  while (filled_ < opened_ && slot_of(filled_).done()) ++filled_;
  changed_.notify_all();
  return true;
}

void Prefetcher::run() {
  take_idle_priority();
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return may_claim() || may_open() || is_over(); });
    if (stop_ || !work(lock)) return;
  }
}

const LoadedBatch* Prefetcher::fill_now() {
  if (taken_ == options_.batches) return nullptr;
  Slot& slot = ring_[0];
  begin(slot);
  slot.buffer.fill_rows(*dataset_, 0, slot.rows);
  ++taken_;
  return &slot.buffer.batch();
}

// Where the system gives none, those that are there go on alone.
void Prefetcher::add_thread() {
  try {
    threads_.emplace_back([this] { run(); });
  } catch (const std::system_error&) {
    options_.most_threads = threads();
  }
}

const LoadedBatch* Prefetcher::peek() {
  const std::lock_guard lock(mutex_);
  if (filled_ <= taken_) return nullptr;
  const Slot& slot = slot_of(taken_);
  return slot.error ? nullptr : &slot.buffer.batch();
}

const LoadedBatch* Prefetcher::next() {
  if (threads_.empty()) return fill_now();
  std::unique_lock lock(mutex_);
  released_ = taken_;
  changed_.notify_all();
  if (taken_ == options_.batches) return nullptr;
  // Nobody can be ahead of the first batches.
  const bool late = filled_ == taken_ && taken_ >= static_cast<int64_t>(ring_.size());
  if (late && !is_over() && threads() < options_.most_threads) add_thread();
  // Rows of a later batch can wait.
  const auto may_help = [&] { return opened_ <= taken_ + 1 && (may_claim() || may_open()); };
  while (filled_ <= taken_) {
    if (may_help()) {
      work(lock);
    } else {
      changed_.wait(lock, [&] { return filled_ > taken_ || may_help(); });
    }
  }
  Slot& slot = slot_of(taken_);
  if (slot.error) std::rethrow_exception(slot.error);
  ++taken_;
  return &slot.buffer.batch();
}

}  // namespace sardonyx::runtime
