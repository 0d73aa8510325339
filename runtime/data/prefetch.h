// Batches ahead of time: one background thread fills a small ring of buffers while the step runs.
//
// The batches are those of the sampler, in its order, whatever the timing. An error on the thread
// arrives at the consumer in the place of the batch it spoiled. The destructor stops and joins the
// thread.
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

 private:
  void run();
  void fill(BatchBuffer& buffer);

  std::shared_ptr<const Dataset> dataset_;
  Sampler sampler_;
  PrefetchOptions options_;
  std::vector<BatchBuffer> ring_;

  // Counts of batches; buffer b % ring size holds batch b. The thread owns what is not filled, the
  // consumer what is filled and not released.
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t filled_ = 0;
  int64_t taken_ = 0;     // given to the consumer
  int64_t released_ = 0;  // given back
  std::exception_ptr error_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace sardonyx::runtime
