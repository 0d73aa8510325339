#include "runtime/collectives/cuda_nccl.h"

#include <algorithm>
#include <array>
#include <exception>
#include <list>
#include <mutex>

#include "graph/support/error.h"
#include "runtime/collectives/cuda_sum.h"
#include "runtime/devices/waiting.h"

namespace sardonyx::runtime {

namespace cuda = ops::cuda;

// --- a rank

NcclRank::NcclRank(const nccl::UniqueId& id, int rank, int size, std::function<void()> check_others)
    : rank_(rank),
      size_(size),
      check_others_(std::move(check_others)),
      stream_(cuda::Priority::kHigh),
      communicator_(nccl::Communicator::start(id, rank, size)) {}

void NcclRank::connect(std::chrono::milliseconds patience) {
  for (const Polling polling; !is_ready(); polling.pause()) {
    check_others_();
    if (polling.since_begin() < patience) continue;
    throw Error(
        "NCCL: the {} ranks haven't come together in {} s, says rank {}; NCCL_DEBUG=INFO "
        "shows what they wait for",
        size_, std::chrono::duration<double>(patience).count(), rank_);
  }
}

// NCCL may put a sum on its stream later than its call returns, so what belongs behind it has to
// wait until it says that it is ready; and so has the next sum.
void NcclRank::settle() {
  for (const Polling polling; !is_ready(); polling.pause()) check_others_();
  if (starting_ == nullptr) return;
  if (starting_->narrow) launch_unpack(stream_.get(), starting_->data, starting_->count);
  cuda::record(starting_->done.get(), stream_.get());
  starting_ = nullptr;
}

void NcclRank::start_sum(void* data, size_t count, graph::DType dtype, graph::DType wire,
                         cuda::Stream compute) {
  settle();
  Sum& sum = sums_[data];
  sum.data = data;
  sum.count = count;
  sum.narrow = wire != dtype;
  cuda::record(sum.ready.get(), compute);
  cuda::wait(stream_.get(), sum.ready.get());
  if (sum.narrow) launch_pack(stream_.get(), data, count);
  communicator_->all_reduce(data, sum.narrow ? packed_count(count) : count, wire, stream_.get());
  starting_ = last_ = &sum;
}

void NcclRank::wait(const void* data, cuda::Stream compute) {
  Sum& sum = sums_.at(data);
  if (starting_ == &sum) settle();
  cuda::wait(compute, sum.done.get());
}

void NcclRank::finish() {
  settle();
  if (last_ == nullptr) return;
  for (const Polling polling; !cuda::done(last_->done.get()); polling.pause()) check();
}

void NcclRank::check() {
  is_ready();  // throws
  check_others_();
}

// --- the ranks of this process

namespace {

// All of them take part when this begins.
constexpr std::chrono::minutes kPatience(5);

// Another one each time that the communicators have to be made anew; whichever rank comes first
// makes it.
class Ids {
 public:
  nccl::UniqueId of_round(size_t round) {
    const std::lock_guard lock(mutex_);
    if (round == rounds_) {
      id_ = nccl::unique_id();
      ++rounds_;
    }
    CHECK(round + 1 == rounds_, "a rank is in round {} of {}", round, rounds_);
    return id_;
  }

 private:
  std::mutex mutex_;
  size_t rounds_ = 0;
  nccl::UniqueId id_ = {};
};

// The ranks also meet on the host, with three numbers per sum: so one that fails, leaves or
// disagrees ends the others as it does on the CPU, and what compute waits for is known to come.
class NcclLink final : public DeviceLink {
 public:
  NcclLink(std::shared_ptr<Ids> ids, CudaDevice& device, LocalGroup& group, int rank)
      : ids_(std::move(ids)), device_(device), group_(group), meeting_(group.rank(rank)) {
    device_.set_watch([this] { check(); });
  }
  ~NcclLink() override {
    device_.set_watch({});
    leave_nccl();
  }

  int rank() const override { return meeting_.rank(); }
  int size() const override { return meeting_.size(); }

  void join() override {
    device_.enter();
    guarded([&] {
      if (failure_ != nullptr) std::rethrow_exception(failure_);
      if (nccl_ == nullptr) join_nccl();
    });
  }

  void start_sum(void* data, size_t count, graph::DType dtype, graph::DType wire,
                 cuda::Stream compute) override {
    join();
    guarded([&] {
      nccl_->start_sum(data, count, dtype, wire, compute);
      const Facts facts = {static_cast<double>(count), static_cast<double>(dtype),
                           static_cast<double>(wire)};
      flights_.push_back({data, facts, facts});
      start_meeting(flights_.back().met);
    });
  }

  void wait(const void* data, cuda::Stream compute) override {
    const auto it = std::find_if(flights_.begin(), flights_.end(),
                                 [&](const Flight& flight) { return flight.data == data; });
    CHECK(it != flights_.end(), "rank {} waits for a sum that it hasn't started", rank());
    guarded([&] {
      meeting_.wait(it->met.data(), serial_);
      for (size_t i = 0; i < it->own.size(); ++i) {
        CHECK(it->met[i] == size() * it->own[i],
              "the ranks disagree about a sum, which has {} elements in rank {}", it->own[0],
              rank());
      }
      nccl_->wait(data, compute);
    });
    flights_.erase(it);
  }

  void finish() override {
    if (nccl_ == nullptr) return;
    device_.enter();
    guarded([&] { nccl_->finish(); });
  }

  void abort() noexcept override { leave_nccl(); }

  void reset() override {
    if (group_.failure() == nullptr) return;
    leave_nccl();
    failure_ = nullptr;
    flights_.clear();
    ++round_;
  }

 private:
  using Facts = std::array<double, 3>;
  struct Flight {
    const void* data;
    Facts own, met;  // met: added up over the ranks
  };

  // Of an error in here the other ranks' NCCL learns nothing; who waits for this one is freed by
  // its own abort, when the group tells it.
  template <class Body>
  void guarded(const Body& body) {
    try {
      body();
    } catch (...) {
      failure_ = std::current_exception();
      nccl_ = nullptr;
      throw;
    }
  }

  void join_nccl() {
    nccl_ = std::make_unique<NcclRank>(ids_->of_round(round_), rank(), size(),
                                       [this] { meeting_.progress(serial_); });
    start_meeting(joining_);
    meeting_.wait(joining_.data(), serial_);
    nccl_->connect(kPatience);
  }

  void leave_nccl() noexcept {
    try {
      device_.enter();
    } catch (const std::exception&) {
      // The device is lost; who asks it next is told.
    }
    nccl_ = nullptr;
  }

  void start_meeting(Facts& facts) {
    meeting_.start_sum(facts.data(), facts.size(), graph::DType::kFloat64, graph::DType::kFloat64,
                       serial_);
  }

  void check() {
    guarded([&] {
      if (nccl_ != nullptr) nccl_->check();
    });
  }

  std::shared_ptr<Ids> ids_;  // of all ranks: the last one frees it
  CudaDevice& device_;
  LocalGroup& group_;
  ops::Communicator& meeting_;
  ops::SerialPool serial_;
  std::unique_ptr<NcclRank> nccl_;  // null: not joined yet, or failed
  std::exception_ptr failure_;
  // What meets stays in place until all ranks have left: the others write there.
  std::list<Flight> flights_;
  Facts joining_ = {};
  size_t round_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<DeviceLink>> link_by_nccl(const std::vector<CudaDevice*>& devices,
                                                      LocalGroup& group) {
  const auto ids = std::make_shared<Ids>();
  std::vector<std::unique_ptr<DeviceLink>> ranks;
  for (size_t r = 0; r < devices.size(); ++r) {
    ranks.push_back(std::make_unique<NcclLink>(ids, *devices[r], group, static_cast<int>(r)));
  }
  return ranks;
}

}  // namespace sardonyx::runtime
