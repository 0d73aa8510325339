#include "runtime/collectives/local.h"

#include <algorithm>
#include <string>
#include <utility>

#include "graph/support/error.h"
#include "ops/core/isa.h"
#include "ops/core/parallel.h"
#include "runtime/collectives/sum_loops.h"

namespace sardonyx::runtime {

using graph::DType;

namespace {

constexpr uint64_t kStays = UINT64_MAX;
// Elements that are worth another thread.
constexpr int64_t kGrain = 16384;

const SumLoops& loops() {
  static const SumLoops& best =
      ops::best_copy(baseline::sum_loops(), avx2::sum_loops(), avx512::sum_loops());
  return best;
}

struct Slice {
  int64_t begin, end;
};

// Borders on whole cache lines, where the memory itself begins on one.
Slice slice_of(size_t count, DType dtype, int rank, int ranks) {
  const auto line = static_cast<int64_t>(64 / graph::dtype_size(dtype));
  const auto n = static_cast<int64_t>(count);
  const int64_t lines = (n + line - 1) / line;
  return {std::min(lines * rank / ranks * line, n), std::min(lines * (rank + 1) / ranks * line, n)};
}

template <class T>
void add_slice(void (*loop)(T* const*, int, size_t, size_t), const std::vector<void*>& data,
               Slice slice, ops::ThreadPool& pool) {
  std::vector<T*> typed;
  for (void* of_rank : data) typed.push_back(static_cast<T*>(of_rank));
  ops::parallel_for(pool, slice.end - slice.begin, kGrain, [&](int64_t begin, int64_t end) {
    loop(typed.data(), static_cast<int>(typed.size()), static_cast<size_t>(slice.begin + begin),
         static_cast<size_t>(slice.begin + end));
  });
}

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    return exception.what();
  } catch (...) {
    return "unknown error";
  }
}

}  // namespace

class LocalGroup::Rank final : public ops::Communicator {
 public:
  using Clock = Span::Clock;

  Rank(LocalGroup& group, int rank) : group_(group), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return group_.size(); }

  void start_sum(void* data, size_t count, DType dtype, DType wire,
                 ops::ThreadPool& pool) override {
    CHECK(dtype == DType::kFloat32 || dtype == DType::kFloat64, "a sum of {}",
          graph::dtype_name(dtype));
    CHECK(wire == dtype || (dtype == DType::kFloat32 && wire == DType::kBFloat16),
          "a sum of {} that travels as {}", graph::dtype_name(dtype), graph::dtype_name(wire));
    if (started_ >= kPlaces) wait_for(started_ - kPlaces, pool);
    Place& place = group_.place(started_, rank_);
    place.sum = {data, count, dtype, wire};
    in_flight_.push_back({data, started_, group_.recorder_ ? Clock::now() : Clock::time_point()});
    ++started_;
    place.started.store(started_, std::memory_order_release);
    group_.notify();
    progress(pool);
  }

  void progress(ops::ThreadPool& pool) override {
    if (group_.failed_.load(std::memory_order_relaxed)) group_.throw_failure();
    while (added_ < started_ && started_by_all(added_)) {
      add_own_slice(pool);
      Place& own = group_.place(added_, rank_);
      if (group_.recorder_ != nullptr) {
        own.done_at.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
      }
      own.done.store(added_ + 1, std::memory_order_release);
      ++added_;
      group_.notify();
    }
  }

  void wait(const void* data, ops::ThreadPool& pool) override {
    const auto it = std::find_if(in_flight_.begin(), in_flight_.end(),
                                 [&](const Flight& sum) { return sum.data == data; });
    CHECK(it != in_flight_.end(), "rank {} waits for a sum that it hasn't started", rank_);
    const Blocked blocked = wait_for(it->number, pool);
    if (group_.recorder_ != nullptr) report(*it, blocked);
    in_flight_.erase(it);
  }

  void leave() {
    CHECK(in_flight_.empty(), "rank {} leaves {} sums that it didn't wait for", rank_,
          in_flight_.size());
    left_after_.store(started_, std::memory_order_release);
  }

  void reset() {
    started_ = added_ = 0;
    in_flight_.clear();
    left_after_.store(kStays, std::memory_order_relaxed);
  }

 private:
  struct Flight {
    const void* data;
    uint64_t number;
    Clock::time_point start;
  };
  enum class Blocked : uint8_t { kNo, kYes };

  Blocked wait_for(uint64_t number, ops::ThreadPool& pool) {
    for (Blocked blocked = Blocked::kNo;; blocked = Blocked::kYes) {
      const uint32_t seen = group_.events_.load(std::memory_order_acquire);
      progress(pool);
      if (done_by_all(number)) return blocked;
      check_nobody_left(number);
      const ScopedSpan span(group_.recorder_, {rank_, 0},
                            {Span::What::kWait, static_cast<int64_t>(number)});
      wait_for_change(group_.events_, seen, group_.waiting_);
    }
  }

  void report(const Flight& flight, Blocked blocked) const {
    Span span{Span::What::kFlight, static_cast<int64_t>(flight.number)};
    const Sum& sum = group_.place(flight.number, rank_).sum;
    span.amount = static_cast<int64_t>(sum.count * graph::dtype_size(sum.wire));
    span.begin = flight.start;
    Clock::rep done = 0;
    for (int r = 0; r < size(); ++r) {
      done = std::max(done, group_.place(flight.number, r).done_at.load(std::memory_order_relaxed));
    }
    span.end = blocked == Blocked::kYes ? Clock::now() : Clock::time_point(Clock::duration(done));
    group_.recorder_->record({rank_, 0}, span);
  }

  bool started_by_all(uint64_t number) const {
    for (int r = 0; r < size(); ++r) {
      if (group_.place(number, r).started.load(std::memory_order_acquire) <= number) return false;
    }
    return true;
  }

  bool done_by_all(uint64_t number) const {
    for (int r = 0; r < size(); ++r) {
      if (group_.place(number, r).done.load(std::memory_order_acquire) <= number) return false;
    }
    return true;
  }

  void check_nobody_left(uint64_t number) const {
    for (const auto& other : group_.ranks_) {
      const uint64_t sums = other->left_after_.load(std::memory_order_acquire);
      CHECK(number < sums, "rank {} waits for sum {}, rank {} took part in {} only", rank_,
            number + 1, other->rank_, sums);
    }
  }

  void add_own_slice(ops::ThreadPool& pool) {
    const Sum own = group_.place(added_, rank_).sum;
    std::vector<void*> data;
    for (int r = 0; r < size(); ++r) {
      const Sum& sum = group_.place(added_, r).sum;
      CHECK(sum.count == own.count && sum.dtype == own.dtype && sum.wire == own.wire,
            "sum {} has {} elements of {} as {} on rank {}, {} of {} as {} on rank {}", added_ + 1,
            own.count, graph::dtype_name(own.dtype), graph::dtype_name(own.wire), rank_, sum.count,
            graph::dtype_name(sum.dtype), graph::dtype_name(sum.wire), r);
      data.push_back(sum.data);
    }
    const Slice slice = slice_of(own.count, own.dtype, rank_, size());
    const auto bytes =
        static_cast<int64_t>(graph::dtype_size(own.wire)) * (slice.end - slice.begin);
    const ScopedSpan span(group_.recorder_, {rank_, 0},
                          {Span::What::kSlice, static_cast<int64_t>(added_), bytes});
    if (own.dtype == DType::kFloat64) return add_slice(loops().f64, data, slice, pool);
    add_slice(own.wire == DType::kBFloat16 ? loops().bf16 : loops().f32, data, slice, pool);
  }

  LocalGroup& group_;
  const int rank_;
  uint64_t started_ = 0;                      // sums
  uint64_t added_ = 0;                        // sums whose slice this rank has written
  std::vector<Flight> in_flight_;             // until they are waited for
  std::atomic<uint64_t> left_after_{kStays};  // sums
};

LocalGroup::LocalGroup(int ranks, Waiting waiting)
    : waiting_(waiting), places_(kPlaces * static_cast<size_t>(ranks)) {
  CHECK(ranks >= 1);
  for (int r = 0; r < ranks; ++r) ranks_.push_back(std::make_unique<Rank>(*this, r));
}

LocalGroup::~LocalGroup() = default;

ops::Communicator& LocalGroup::rank(int rank) { return *ranks_.at(static_cast<size_t>(rank)); }

void LocalGroup::abort(int rank, std::exception_ptr error) {
  {
    const std::lock_guard lock(failure_mutex_);
    if (failure_ != nullptr) return;
    failure_ = std::move(error);
    failed_rank_ = rank;
  }
  failed_.store(true, std::memory_order_release);
  notify();
}

void LocalGroup::leave(int rank) {
  ranks_.at(static_cast<size_t>(rank))->leave();
  notify();
}

void LocalGroup::reset() {
  for (const auto& rank : ranks_) rank->reset();
  for (Place& place : places_) {
    place.started.store(0, std::memory_order_relaxed);
    place.done.store(0, std::memory_order_relaxed);
  }
  failed_.store(false, std::memory_order_relaxed);
  failure_ = nullptr;
  failed_rank_ = -1;
}

std::exception_ptr LocalGroup::failure() const {
  const std::lock_guard lock(failure_mutex_);
  return failure_;
}

int LocalGroup::failed_rank() const {
  const std::lock_guard lock(failure_mutex_);
  return failed_rank_;
}

void LocalGroup::notify() {
  events_.fetch_add(1, std::memory_order_acq_rel);
  events_.notify_all();
}

void LocalGroup::throw_failure() const {
  const std::exception_ptr error = failure();
  throw Error("rank {} stopped: {}", failed_rank(), message_of(error));
}

}  // namespace sardonyx::runtime
