#include "runtime/collectives/cuda_shared.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "graph/support/error.h"
#include "runtime/collectives/cuda_sum.h"

namespace sardonyx::runtime {

namespace cuda = ops::cuda;

namespace {

// Sums that may be under way at once.
constexpr size_t kPlaces = 64;

// Between looks at whether another rank failed.
constexpr auto kPatience = std::chrono::milliseconds(20);

// What one rank says about one sum.
struct Place {
  void* data = nullptr;
  size_t count = 0;
  graph::DType dtype = graph::DType::kUndefined, wire = graph::DType::kUndefined;
  cuda::OwnedEvent ready, added;
  double met = 0;       // the number that travels
  size_t enqueued = 0;  // number of the sum whose slice is, + 1; under Table::mutex
};

struct Table {
  explicit Table(size_t ranks) : ranks(ranks), places(ranks * kPlaces) {}
  Place& place(size_t number, size_t rank) { return places[number % kPlaces * ranks + rank]; }

  size_t ranks;
  std::vector<Place> places;
  std::mutex mutex;
  std::condition_variable changed;
};

class Rank final : public DeviceLink {
 public:
  Rank(std::shared_ptr<Table> table, CudaDevice& device, ops::Communicator& meeting)
      : table_(std::move(table)),
        device_(device),
        meeting_(meeting),
        sums_(cuda::Priority::kHigh) {}

  int rank() const override { return meeting_.rank(); }
  int size() const override { return meeting_.size(); }

  void start_sum(void* data, size_t count, graph::DType dtype, graph::DType wire,
                 cuda::Stream compute) override {
    CHECK(in_flight_.size() < kPlaces, "more than {} sums are under way", kPlaces);
    Place& own = place(next_);
    own.data = data;
    own.count = count;
    own.dtype = dtype;
    own.wire = wire;
    cuda::record(own.ready.get(), compute);
    in_flight_.push_back(next_++);
    own.met = 1;
    meeting_.start_sum(&own.met, 1, graph::DType::kFloat64, graph::DType::kFloat64, serial_);
  }

  void wait(const void* data, cuda::Stream compute) override {
    const auto it = std::find_if(in_flight_.begin(), in_flight_.end(),
                                 [&](size_t number) { return place(number).data == data; });
    CHECK(it != in_flight_.end(), "rank {} waits for a sum that it hasn't started", rank());
    // In the order of their numbers, on all ranks alike.
    while (added_ <= *it) add(added_++);
    for (size_t r = 0; r < table_->ranks; ++r) {
      cuda::wait(compute, table_->place(*it, r).added.get());
    }
    in_flight_.erase(it);
  }

  void reset() override {
    in_flight_.clear();
    next_ = added_ = 0;
    for (size_t number = 0; number < kPlaces; ++number) place(number).enqueued = 0;
  }

 private:
  Place& place(size_t number) { return table_->place(number, static_cast<size_t>(rank())); }

  // Enqueues this rank's slice of a sum, and returns when all ranks have.
  void add(size_t number) {
    Place& own = place(number);
    meeting_.wait(&own.met, serial_);
    SharedSum sum{{}, size(), own.dtype, own.wire, 0, 0};
    for (size_t r = 0; r < table_->ranks; ++r) {
      const Place& other = table_->place(number, r);
      CHECK(other.count == own.count && other.dtype == own.dtype && other.wire == own.wire,
            "ranks {} and {} disagree about sum {}", rank(), r, number);
      sum.data[r] = other.data;
      cuda::wait(sums_.get(), other.ready.get());
    }
    const auto r = static_cast<size_t>(rank());
    sum.begin = own.count * r / table_->ranks;
    sum.end = own.count * (r + 1) / table_->ranks;
    launch_shared_sum(sums_.get(), sum);
    cuda::record(own.added.get(), sums_.get());
    {
      const std::lock_guard lock(table_->mutex);
      own.enqueued = number + 1;
    }
    table_->changed.notify_all();
    await_all(number);
  }

  void await_all(size_t number) {
    std::unique_lock lock(table_->mutex);
    const auto all = [&] {
      for (size_t r = 0; r < table_->ranks; ++r) {
        if (table_->place(number, r).enqueued <= number) return false;
      }
      return true;
    };
    while (!table_->changed.wait_for(lock, kPatience, all)) {
      lock.unlock();
      meeting_.progress(serial_);  // throws when another rank failed
      lock.lock();
    }
  }

  std::shared_ptr<Table> table_;  // of all ranks: the last one frees it
  CudaDevice& device_;
  ops::Communicator& meeting_;
  ops::SerialPool serial_;
  cuda::OwnedStream sums_;
  std::vector<size_t> in_flight_;
  size_t next_ = 0, added_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<DeviceLink>> share_cuda_device(const std::vector<CudaDevice*>& devices,
                                                           LocalGroup& group) {
  CHECK(devices.size() <= static_cast<size_t>(kMostOnOneDevice));
  devices[0]->enter();
  const auto table = std::make_shared<Table>(devices.size());
  std::vector<std::unique_ptr<DeviceLink>> ranks;
  for (size_t r = 0; r < devices.size(); ++r) {
    ranks.push_back(std::make_unique<Rank>(table, *devices[r], group.rank(static_cast<int>(r))));
  }
  return ranks;
}

}  // namespace sardonyx::runtime
