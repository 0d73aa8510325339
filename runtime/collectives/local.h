// Sums over the replicas of one process, in shared memory and without a thread of their own.
//
// Each rank numbers its sums by the order of start_sum; the sums of one number belong together.
// Once all ranks have started a sum, each adds up its own slice of it, in rank order, and writes
// the result into the memory of all ranks: so all get the same bits, whatever the timing. A rank
// does its part in start_sum, progress and wait, and never blocks in progress.
//
// With `wire` kBFloat16 what a rank sends is rounded to bfloat16, both ways: its terms and the
// result of its slice. Replicas in other processes then give the same bits, and need half the
// traffic. Numbers that must stay exact (counts) don't travel in such a sum.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "ops/core/communicator.h"
#include "runtime/devices/recorder.h"
#include "runtime/devices/waiting.h"

namespace sardonyx::runtime {

class LocalGroup {
 public:
  LocalGroup(int ranks, Waiting waiting);
  ~LocalGroup();
  LocalGroup(const LocalGroup&) = delete;
  LocalGroup& operator=(const LocalGroup&) = delete;

  int size() const { return static_cast<int>(ranks_.size()); }
  // For one thread at a time. Its calls throw InternalError on every rank when the ranks disagree
  // about a sum's size or types.
  ops::Communicator& rank(int rank);

  // Gets what every rank does, as thread 0 of its replica; null: nobody does. Called while no rank
  // is inside a call or has a sum under way.
  void set_recorder(Recorder* recorder) { recorder_ = recorder; }

  // `rank` failed: from now on every call of every rank throws Error with the first failure's
  // message. From any thread, any number of times. Memory that was given to a sum must stay until
  // the other ranks have left their calls.
  void abort(int rank, std::exception_ptr error);
  // `rank` starts no more sums: whoever waits for one throws InternalError.
  void leave(int rank);
  // Nobody failed, left or started anything. Called while no rank is inside a call.
  void reset();

  // Of the first failure; null and -1 when there was none.
  std::exception_ptr failure() const;
  int failed_rank() const;

 private:
  class Rank;
  struct Sum {
    void* data = nullptr;
    size_t count = 0;
    graph::DType dtype = graph::DType::kUndefined, wire = graph::DType::kUndefined;
  };
  // What one rank says about one sum. The numbers only grow, so that a place can be used again for
  // the sum kPlaces later. `sum` is written before `started`.
  struct alignas(64) Place {
    Sum sum;
    std::atomic<uint64_t> started{0};          // number of the sum + 1
    std::atomic<uint64_t> done{0};             // likewise, when this rank's slice is written
    std::atomic<Span::Clock::rep> done_at{0};  // set before `done` when there is a recorder
  };
  static constexpr uint64_t kPlaces = 64;

  Place& place(uint64_t number, int rank) {
    return places_[(number % kPlaces) * ranks_.size() + static_cast<size_t>(rank)];
  }
  void notify();
  [[noreturn]] void throw_failure() const;

  const Waiting waiting_;
  Recorder* recorder_ = nullptr;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<Place> places_;
  std::atomic<uint32_t> events_{0};  // changes with everything that a waiting rank may wait for
  std::atomic<bool> failed_{false};
  mutable std::mutex failure_mutex_;
  std::exception_ptr failure_;
  int failed_rank_ = -1;
};

}  // namespace sardonyx::runtime
