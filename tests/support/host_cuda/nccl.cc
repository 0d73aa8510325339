// runtime/collectives/nccl.h on the host. Ranks find each other by the id; the terms of a sum are
// taken when its stream comes to it, added up in rank order once all have come, and rounded to the
// type of the elements at each addition.
//
// As with the library, what was started last isn't on the stream before poll() says so, and an
// abort frees the own stream only.
#include "runtime/collectives/nccl.h"

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "graph/support/error.h"
#include "tests/support/host_cuda/host_cuda.h"
#include "tests/support/host_cuda/libraries.h"
#include "tests/support/host_cuda/streams.h"

namespace sardonyx::runtime::nccl {

namespace {

using graph::DType;
using host_cuda::Rounded;

constexpr int kVersion = 22809;
// How often a communicator says that it is busy after a start.
constexpr int kBusyPolls = 3;

struct Term {
  std::byte* cells = nullptr;
  std::vector<std::byte> bytes;  // as they came
  std::atomic<bool> aborted{false}, finished{false};
};

struct Sum {
  Sum(size_t ranks, size_t elements, DType type)
      : count(elements), dtype(type), terms(ranks), meeting(host_cuda::make_meeting(ranks)) {}

  void take(size_t rank) {
    const std::byte* cells = terms[rank].cells;
    terms[rank].bytes.assign(cells, cells + count * graph::dtype_size(dtype));
  }
  void finish(size_t rank) {
    const size_t bytes = count * graph::dtype_size(dtype);
    Term& own = terms[rank];
    own.finished = true;
    if (own.aborted) {
      std::memset(own.cells, 0xff, bytes);
      return;
    }
    if (std::memcmp(own.cells, own.bytes.data(), bytes) != 0) {
      throw InternalError(
          fmt::format("nccl sum in rank {}: its terms changed while it was under way", rank));
    }
    std::vector<double> sum = load(terms[0]);
    for (size_t r = 1; r < terms.size(); ++r) {
      const std::vector<double> term = load(terms[r]);
      for (size_t i = 0; i < count; ++i) sum[i] += term[i];
      std::vector<std::byte> rounded(bytes);
      host_cuda::store(dtype, sum, rounded.data());
      sum = host_cuda::load(dtype, rounded.data(), count, Rounded::kNot);
    }
    host_cuda::store(dtype, sum, own.cells);
  }

  size_t count;
  DType dtype;
  size_t ranks_that_started = 0;
  std::vector<Term> terms;  // by rank
  std::shared_ptr<host_cuda::Meeting> meeting;

 private:
  std::vector<double> load(const Term& term) const {
    return host_cuda::load(dtype, term.bytes.data(), count, Rounded::kNot);
  }
};

// Where the ranks of an id meet.
struct Room {
  explicit Room(int ranks) : devices(static_cast<size_t>(ranks), -1) {}

  void enter(int rank, int device) {
    const std::lock_guard lock(mutex);
    CHECK(devices.at(static_cast<size_t>(rank)) < 0, "two communicators are rank {}", rank);
    for (size_t other = 0; other < devices.size(); ++other) {
      if (devices[other] != device) continue;
      refusal = fmt::format("Duplicate GPU detected : rank {} and rank {} both on CUDA device {}",
                            rank, other, device);
    }
    devices[static_cast<size_t>(rank)] = device;
    ++entered;
  }
  // Ranks that disagree about a sum never meet in it.
  std::shared_ptr<Sum> sum(size_t number, size_t count, DType dtype) {
    const std::lock_guard lock(mutex);
    auto& slot = sums[number];
    if (slot == nullptr) slot = std::make_shared<Sum>(devices.size(), count, dtype);
    if (slot->count != count || slot->dtype != dtype) {
      return std::make_shared<Sum>(devices.size(), count, dtype);
    }
    if (++slot->ranks_that_started < devices.size()) return slot;
    return std::move(sums.extract(number).mapped());
  }

  std::mutex mutex;
  std::vector<int> devices;  // by rank; -1: it isn't there yet
  size_t entered = 0;
  std::string refusal;
  std::map<size_t, std::shared_ptr<Sum>> sums;  // by number, until every rank has started it
};

struct Rooms {
  static Rooms& get() {
    static auto* rooms = new Rooms;
    return *rooms;
  }
  std::shared_ptr<Room> open(const UniqueId& id, int size) {
    const std::lock_guard lock(mutex);
    CHECK(ids.contains(id), "nccl: unique_id() returned no such id");
    std::shared_ptr<Room> room = rooms[id].lock();
    if (room == nullptr) rooms[id] = room = std::make_shared<Room>(size);
    CHECK(room->devices.size() == static_cast<size_t>(size), "nccl: {} ranks in one, {} in another",
          room->devices.size(), size);
    return room;
  }

  std::mutex mutex;
  std::set<UniqueId> ids;
  std::map<UniqueId, std::weak_ptr<Room>> rooms;
};

class HostCommunicator final : public Communicator {
 public:
  HostCommunicator(const UniqueId& id, int rank, int size)
      : rank_(rank),
        size_(size),
        device_(host_cuda::current_device("nccl")),
        faults_(host_cuda::machine().nccl),
        room_(Rooms::get().open(id, size)) {
    CHECK(rank >= 0 && rank < size);
    host_cuda::count_allocation();  // the library's buffers
    if (faults_.absent_rank != rank) room_->enter(rank, device_);
  }
  ~HostCommunicator() override { abort(); }

  State poll() override {
    check_usable();
    {
      const std::lock_guard lock(room_->mutex);
      if (!room_->refusal.empty()) fail("invalid usage", room_->refusal);
      if (room_->entered < room_->devices.size()) return State::kBusy;
    }
    if (broken_) fail("unhandled cuda error", faults_.reason);
    if (busy_ > 0) {
      --busy_;
      return State::kBusy;
    }
    ready_ = true;
    if (started_ == nullptr) return State::kReady;
    enqueue();
    broken_ = faults_.broken_rank == rank_;
    return State::kReady;
  }

  void all_reduce(void* data, size_t count, DType dtype, ops::cuda::Stream stream) override {
    check_usable();
    CHECK(ready_, "nccl: rank {} starts a sum before poll() said that it is ready", rank_);
    host_cuda::check_dtype("nccl", dtype);
    work_.name =
        fmt::format("nccl sum of {} {} in rank {}", count, graph::dtype_name(dtype), rank_);
    work_.memory.clear();
    host_cuda::check_stream(work_.name, stream);
    std::byte* cells = operand(work_, "data", data, count * graph::dtype_size(dtype));
    started_ = room_->sum(next_++, count, dtype);
    started_->terms[seat()].cells = cells;
    std::erase_if(sums_, [&](const auto& sum) { return sum->terms[seat()].finished.load(); });
    sums_.push_back(started_);
    stream_ = stream;
    ready_ = false;
    busy_ = kBusyPolls;
  }

  void abort() noexcept override {
    for (const auto& sum : sums_) {
      sum->terms[seat()].aborted = true;
      host_cuda::leave_early(*sum->meeting, seat());
    }
    sums_.clear();
    started_ = nullptr;
    room_ = nullptr;
  }

 private:
  size_t seat() const { return static_cast<size_t>(rank_); }
  void check_usable() const {
    CHECK(room_ != nullptr, "nccl: rank {} was aborted", rank_);
    CHECK(host_cuda::current_device("nccl") == device_,
          "nccl: rank {} is on cuda:{}, the thread speaks to another device", rank_, device_);
  }
  [[noreturn]] void fail(const char* kind, const std::string& sentence) const {
    throw Error("NCCL: {}, in rank {} of {}: {}", kind, rank_, size_, sentence);
  }
  void enqueue() {
    const auto part = [&](void (Sum::*step)(size_t)) {
      host_cuda::Work work = work_;
      work.run = [sum = started_, step, rank = seat()] { ((*sum).*step)(rank); };
      return work;
    };
    if (faults_.broken_rank != rank_) {
      host_cuda::enqueue_arrival(stream_, part(&Sum::take), started_->meeting, seat());
    }
    host_cuda::enqueue_departure(stream_, part(&Sum::finish), started_->meeting, seat());
    started_ = nullptr;
  }

  int rank_, size_, device_;
  host_cuda::NcclFaults faults_;
  std::shared_ptr<Room> room_;  // null: aborted
  bool ready_ = false, broken_ = false;
  int busy_ = kBusyPolls;
  // What was started last, until it is on its stream.
  std::shared_ptr<Sum> started_;
  host_cuda::Work work_;
  ops::cuda::Stream stream_ = nullptr;
  size_t next_ = 0;
  std::vector<std::shared_ptr<Sum>> sums_;  // not finished when the last one was started
};

}  // namespace

int version() {
  const std::string missing = host_cuda::machine().nccl.missing;
  if (!missing.empty()) throw Error("{}", missing);
  return kVersion;
}

UniqueId unique_id() {
  Rooms& rooms = Rooms::get();
  const std::lock_guard lock(rooms.mutex);
  const size_t number = rooms.ids.size();
  UniqueId id = {};
  std::memcpy(id.data(), &number, sizeof number);
  rooms.ids.insert(id);
  return id;
}

std::unique_ptr<Communicator> Communicator::start(const UniqueId& id, int rank, int size) {
  return std::make_unique<HostCommunicator>(id, rank, size);
}

}  // namespace sardonyx::runtime::nccl
