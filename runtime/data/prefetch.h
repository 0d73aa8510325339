// Fills a small ring of buffers while the step runs.
//
// The batches are those of the sampler, in its order, and their bytes the same, whatever the timing
// and the number of threads. One thread loads; whenever the consumer has to wait for it, another
// one joins, up to the number of cores, and the consumer itself loads instead of waiting. The
// loaders run at idle priority: a core that computes shares its work with all others, so what it
// loses to a loader, they all lose. An error arrives at the consumer in the place of the batch it
// spoiled; of several in a batch it is that of the first row. The destructor stops and joins the
// threads.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "runtime/data/batch.h"
#include "runtime/data/dataset.h"
#include "runtime/data/sampler.h"

namespace sardonyx::runtime {

struct PrefetchOptions {
  int depth = 2;                // batches ahead; 0: no thread, each batch is filled when asked for
  int64_t batches = INT64_MAX;  // stop after so many
  SliceOf slice = {};           // the part of a batch this process needs; empty: all of it
  int most_threads = 0;         // 0: one per core
};

class Prefetcher {
 public:
  Prefetcher(std::shared_ptr<const Dataset> dataset, Sampler sampler, PrefetchOptions options);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // The next batch, valid until the next call; nullptr after the last one. Rethrows what the loader
  // threw.
  const LoadedBatch* next();
  // What next() will return, if it is there already; both stay until then. Never waits, and leaves
  // what the loader threw to next().
  const LoadedBatch* peek();
  int threads() const { return static_cast<int>(threads_.size()); }

 private:
  // Rows are claimed in pieces, by any thread; the batch is there when all are done.
  struct Slot {
    Slot(const Dataset& dataset, int64_t capacity) : buffer(dataset, capacity) {}
    bool done() const { return rows_done == rows; }

    BatchBuffer buffer;
    int64_t rows = 0, rows_claimed = 0, rows_done = 0;
    std::exception_ptr error;
    int64_t bad_piece = 0;  // first row of the piece that it came from
  };

  Slot& slot_of(int64_t batch) { return ring_[static_cast<size_t>(batch) % ring_.size()]; }
  void begin(Slot& slot);
  void run();
  bool work(std::unique_lock<std::mutex>& lock);
  void add_thread();
  bool may_open() const;
  bool may_claim();
  bool is_over() const;
  void open_batch(std::unique_lock<std::mutex>& lock);
  void fill_piece(std::unique_lock<std::mutex>& lock);
  void fail(Slot& slot, std::exception_ptr error, int64_t first_row);
  const LoadedBatch* fill_now();

  std::shared_ptr<const Dataset> dataset_;
  Sampler sampler_;
  PrefetchOptions options_;
  std::vector<Slot> ring_;  // batch b is in slot b % size
  std::vector<std::thread> threads_;

  // Guards everything below and the counts of the slots. The buffer of a slot belongs to the thread
  // that opens it, then piece by piece to those that claim its rows, then to the consumer.
  std::mutex mutex_;
  std::condition_variable changed_;
  bool opening_ = false;
  int64_t opened_ = 0;    // batches whose rows may be claimed; only the last one has some left
  int64_t filled_ = 0;    // batches that are done
  int64_t taken_ = 0;     // given to the consumer
  int64_t released_ = 0;  // given back
  bool failed_ = false;
  bool stop_ = false;
};

}  // namespace sardonyx::runtime
