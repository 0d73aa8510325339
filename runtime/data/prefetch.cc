// A bounded queue whose slots are the buffers themselves.
#include "runtime/data/prefetch.h"

#include <algorithm>
#include <utility>

#include "graph/support/error.h"

namespace sardonyx::runtime {

Prefetcher::Prefetcher(std::shared_ptr<const Dataset> dataset, Sampler sampler,
                       PrefetchOptions options)
    : dataset_(std::move(dataset)), sampler_(std::move(sampler)), options_(std::move(options)) {
  CHECK(options_.depth >= 0);
  int64_t capacity = 0;
  for (int64_t size : sampler_.batch_sizes()) {
    capacity = std::max(capacity, options_.slice ? options_.slice(size).count : size);
  }
  // One more than the depth: the batch the consumer holds.
  for (int i = 0; i <= options_.depth; ++i) ring_.emplace_back(dataset_->info(), capacity);
  if (options_.depth > 0) thread_ = std::thread([this] { run(); });
}

Prefetcher::~Prefetcher() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Prefetcher::fill(BatchBuffer& buffer) {
  Draw draw = sampler_.next();
  int64_t size = static_cast<int64_t>(draw.indices.size());
  buffer.fill(*dataset_, draw, options_.slice ? options_.slice(size) : BatchSlice{0, size});
}

void Prefetcher::run() {
  int64_t slots = static_cast<int64_t>(ring_.size());
  for (int64_t batch = 0; batch < options_.batches; ++batch) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || batch - released_ < slots; });
      if (stop_) return;
    }
    std::exception_ptr error;
    try {
      fill(ring_[static_cast<size_t>(batch % slots)]);
    } catch (...) {
      error = std::current_exception();
    }
    std::lock_guard lock(mutex_);
    error_ = error;
    if (!error) filled_ = batch + 1;
    changed_.notify_all();
    if (error) return;
  }
}

const LoadedBatch* Prefetcher::next() {
  if (!thread_.joinable()) {
    if (taken_ == options_.batches) return nullptr;
    fill(ring_[0]);
    ++taken_;
    return &ring_[0].batch();
  }
  std::unique_lock lock(mutex_);
  released_ = taken_;
  changed_.notify_all();
  if (taken_ == options_.batches) return nullptr;
  changed_.wait(lock, [&] { return filled_ > taken_ || error_; });
  if (filled_ == taken_) std::rethrow_exception(error_);
  int64_t slot = taken_++ % static_cast<int64_t>(ring_.size());
  return &ring_[static_cast<size_t>(slot)].batch();
}

}  // namespace sardonyx::runtime
