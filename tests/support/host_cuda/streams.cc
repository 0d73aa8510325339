#include "tests/support/host_cuda/streams.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <utility>

#include "graph/support/error.h"
#include "tests/support/host_cuda/host_cuda.h"

namespace sardonyx::host_cuda {

namespace {

struct Queue;

// What an event stands for: a place in a stream.
struct Mark {
  std::shared_ptr<Queue> queue;
  uint64_t position = 0;
  std::chrono::steady_clock::time_point reached;
};

struct Item {
  uint64_t position = 0;
  Work work = {};
  std::shared_ptr<Mark> waits_for = {}, marks = {};
  std::shared_ptr<Meeting> arrives = {}, departs = {};
  size_t seat = 0;  // at either
};

struct Queue {
  size_t number = 0;
  int device = 0;
  std::deque<Item> items;
  uint64_t enqueued = 0, done = 0;
  bool busy = false;  // a host thread runs an item of it
};

bool reached(const Mark& mark) { return mark.queue->done >= mark.position; }

thread_local int device_of_thread = -1;

// How long somebody waits for a stream that nobody brings on before it counts as a hang.
constexpr std::chrono::seconds kHang{30};

}  // namespace

class Meeting {
 public:
  struct Seat {
    std::shared_ptr<Queue> queue;  // null: its arrival isn't enqueued
    uint64_t position = 0;         // of the arrival
    bool arrived = false, left = false;
  };

  explicit Meeting(size_t seats) : seats_(seats) {}
  Seat& seat(size_t i) { return seats_.at(i); }
  const std::vector<Seat>& seats() const { return seats_; }
  void arrive(size_t i) {
    seats_.at(i).arrived = true;
    complete_ = std::all_of(seats_.begin(), seats_.end(),
                            [](const Seat& seat) { return seat.arrived && !seat.left; });
  }
  bool may_depart(size_t i) const { return complete_ || seats_.at(i).left; }

 private:
  std::vector<Seat> seats_;
  bool complete_ = false;
};

}  // namespace sardonyx::host_cuda

namespace sardonyx::ops::cuda {

struct StreamHandle {
  std::shared_ptr<host_cuda::Queue> queue;
};
struct EventHandle {
  int device = 0;
  bool timing = false;
  std::shared_ptr<host_cuda::Mark> mark;  // null: never recorded
};

}  // namespace sardonyx::ops::cuda

namespace sardonyx::host_cuda {

namespace {

using ops::cuda::Event;
using ops::cuda::Stream;
using Lock = std::unique_lock<std::mutex>;

class Streams {
 public:
  static Streams& get() {
    static auto* streams = new Streams;
    return *streams;
  }

  Lock lock() { return Lock(mutex_); }
  Machine machine;
  Counts counts;

  void reset(const Machine& to) {
    const Lock held = lock();
    machine = to;
    counts = {};
    faults_.clear();
    random_.seed(to.seed);
    for (Stream stream : streams_) drop(*stream->queue);
  }

  void check_device(int device) const {
    const auto it = faults_.find(device);
    if (it != faults_.end()) throw InternalError(it->second);
  }
  // Of a live stream; throws for another.
  const std::shared_ptr<Queue>& queue(const std::string& who, Stream stream) const {
    if (!streams_.contains(stream)) {
      throw InternalError(who + ": the stream was destroyed, or never created");
    }
    return stream->queue;
  }
  void check_lives(const std::string& who, Event event) const {
    if (!events_.contains(event)) {
      throw InternalError(who + ": the event was destroyed, or never created");
    }
  }
  const Mark& mark(const std::string& who, Event event) const {
    check_lives(who, event);
    if (event->mark == nullptr) throw InternalError(who + ": the event was never recorded");
    return *event->mark;
  }

  Stream create_stream(int device) {
    const auto queue = std::make_shared<Queue>();
    queue->number = ++streams_created_;
    queue->device = device;
    return *streams_.insert(new ops::cuda::StreamHandle{queue}).first;
  }
  void erase(Stream stream) {
    streams_.erase(stream);
    delete stream;
  }
  Event create_event(int device, bool timing) {
    return *events_.insert(new ops::cuda::EventHandle{device, timing, nullptr}).first;
  }
  void erase(Event event) {
    events_.erase(event);
    delete event;
  }

  void add(Lock& held, std::shared_ptr<Queue> queue, Item item) {
    check_device(queue->device);
    item.position = ++queue->enqueued;
    if (item.marks != nullptr) {
      item.marks->queue = queue;
      item.marks->position = item.position;
    }
    if (item.arrives != nullptr) {
      item.arrives->seat(item.seat).queue = queue;
      item.arrives->seat(item.seat).position = item.position;
    }
    queue->items.push_back(std::move(item));
    changed_.notify_all();
    if (machine.schedule == Schedule::kRandom) {
      for (auto pieces = random_() % 3; pieces > 0; --pieces) run_any(held);
    }
  }
  void run_until(Lock& held, std::shared_ptr<Queue> queue, uint64_t position) {
    while (queue->done < position) {
      if (machine.schedule == Schedule::kRandom && random_() % 2 == 0) run_any(held);
      if (queue->done >= position) break;
      const auto next = first_to_run(queue);
      if (next != nullptr && !next->busy) {
        run_item(held, next);
      } else if (changed_.wait_for(held, kHang) == std::cv_status::timeout) {
        throw InternalError(fmt::format(
            "the host waits for stream {} of cuda:{}, which waits for others that don't come",
            queue->number, queue->device));
      }
    }
    check_device(queue->device);
  }
  // One item, if nobody is at it: who asks again and again sees the mark reached in the end.
  void run_towards(Lock& held, const Mark& mark) {
    const auto next = first_to_run(mark.queue);
    if (next != nullptr && !next->busy) run_item(held, next);
    check_device(mark.queue->device);
  }
  void leave_early(Meeting& meeting, size_t seat) {
    const Lock held = lock();
    meeting.seat(seat).left = true;
    changed_.notify_all();
  }
  void finish_device(Lock& held, int device) {
    const std::set<Stream> streams = streams_;
    for (Stream stream : streams) {
      if (!streams_.contains(stream) || stream->queue->device != device) continue;
      const auto queue = stream->queue;
      run_until(held, queue, queue->enqueued);
    }
  }

 private:
  // The stream itself, or one that it waits for, directly or not; null when that isn't enqueued
  // yet. Events only stand for what was enqueued before them, so a circle leads through a meeting.
  static std::shared_ptr<Queue> first_to_run(std::shared_ptr<Queue> queue,
                                             std::vector<const Meeting*> passed = {}) {
    while (!queue->busy) {
      CHECK(!queue->items.empty());
      const Item& item = queue->items.front();
      if (item.departs != nullptr && !item.departs->may_depart(item.seat)) {
        return first_to_arrive(*item.departs, std::move(passed));
      }
      if (item.waits_for == nullptr || reached(*item.waits_for)) break;
      queue = item.waits_for->queue;
    }
    return queue;
  }
  static std::shared_ptr<Queue> first_to_arrive(const Meeting& meeting,
                                                std::vector<const Meeting*> passed) {
    if (std::find(passed.begin(), passed.end(), &meeting) != passed.end()) return nullptr;
    passed.push_back(&meeting);
    for (const Meeting::Seat& seat : meeting.seats()) {
      if (seat.arrived || seat.queue == nullptr || seat.queue->done >= seat.position) continue;
      if (auto next = first_to_run(seat.queue, passed)) return next;
    }
    return nullptr;
  }
  // An item of some stream, if there is one that can run.
  void run_any(Lock& held) {
    std::map<size_t, std::shared_ptr<Queue>> candidates;
    for (Stream stream : streams_) {
      if (stream->queue->items.empty()) continue;
      const auto queue = first_to_run(stream->queue);
      if (queue != nullptr && !queue->busy) candidates[queue->number] = queue;
    }
    if (candidates.empty()) return;
    run_item(held, std::next(candidates.begin(), random_() % candidates.size())->second);
  }
  void run_item(Lock& held, std::shared_ptr<Queue> queue) {
    const Item item = std::move(queue->items.front());
    queue->items.pop_front();
    queue->busy = true;
    std::string fault;
    held.unlock();
    try {
      if (item.work.run) run_work(item.work);
    } catch (const std::exception& error) {
      fault = error.what();
    }
    held.lock();
    queue->busy = false;
    queue->done = std::max(queue->done, item.position);
    if (item.arrives != nullptr && fault.empty()) item.arrives->arrive(item.seat);
    if (item.marks != nullptr) item.marks->reached = std::chrono::steady_clock::now();
    if (!fault.empty()) fail(queue->device, fault);
    changed_.notify_all();
  }
  static void run_work(const Work& work) {
    for (const Allocation* memory : work.memory) check_bounds(work.name, *memory);
    {
      const Running running(work.name);
      work.run();
    }
    for (const Allocation* memory : work.memory) check_bounds(work.name, *memory);
  }
  void fail(int device, const std::string& fault) {
    faults_.emplace(device, fault);
    for (Stream stream : streams_) {
      if (stream->queue->device == device) drop(*stream->queue);
    }
  }
  static void drop(Queue& queue) {
    queue.items.clear();
    queue.done = queue.enqueued;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<Stream> streams_;
  std::set<Event> events_;
  std::map<int, std::string> faults_;  // by device
  std::mt19937_64 random_;
  size_t streams_created_ = 0;
};

}  // namespace

void reset(const Machine& machine) {
  CHECK(machine.devices > 0 || !machine.why_none.empty(), "say why there are no devices");
  Streams::get().reset(machine);
}
const Machine& machine() { return Streams::get().machine; }
void plant(const NcclFaults& faults) {
  Streams& streams = Streams::get();
  const Lock held = streams.lock();
  streams.machine.nccl = faults;
}
Counts counts() {
  Streams& streams = Streams::get();
  const Lock held = streams.lock();
  return streams.counts;
}
void count_allocation() {
  Streams& streams = Streams::get();
  const Lock held = streams.lock();
  ++streams.counts.allocations;
}

int current_device(const std::string& who) {
  if (device_of_thread < 0) throw InternalError(who + ": this thread named no device");
  return device_of_thread;
}

void check_stream(const std::string& who, Stream stream) {
  const int device = current_device(who);
  Streams& streams = Streams::get();
  const Lock held = streams.lock();
  const auto& queue = streams.queue(who, stream);
  if (queue->device != device) {
    throw InternalError(
        fmt::format("{}: the stream belongs to cuda:{}, the thread speaks to cuda:{}", who,
                    queue->device, device));
  }
}

void enqueue(Stream stream, Kind kind, Work work) {
  Streams& streams = Streams::get();
  Lock held = streams.lock();
  ++(kind == Kind::kKernel ? streams.counts.kernels : streams.counts.copies);
  if (kind == Kind::kCopy) ++streams.counts.copies_since_synchronization;
  const auto queue = streams.queue(work.name, stream);
  streams.add(held, queue, {.work = std::move(work)});
}

std::shared_ptr<Meeting> make_meeting(size_t seats) { return std::make_shared<Meeting>(seats); }
void enqueue_arrival(Stream stream, Work work, const std::shared_ptr<Meeting>& meeting,
                     size_t seat) {
  Streams& streams = Streams::get();
  Lock held = streams.lock();
  const auto queue = streams.queue(work.name, stream);
  streams.add(held, queue, {.work = std::move(work), .arrives = meeting, .seat = seat});
}
void enqueue_departure(Stream stream, Work work, const std::shared_ptr<Meeting>& meeting,
                       size_t seat) {
  Streams& streams = Streams::get();
  Lock held = streams.lock();
  ++streams.counts.kernels;
  const auto queue = streams.queue(work.name, stream);
  streams.add(held, queue, {.work = std::move(work), .departs = meeting, .seat = seat});
}
void leave_early(Meeting& meeting, size_t seat) { Streams::get().leave_early(meeting, seat); }

void finish_device(int device) {
  Streams& streams = Streams::get();
  Lock held = streams.lock();
  streams.finish_device(held, device);
}

std::byte* operand(Work& work, const char* what, const void* address, size_t bytes) {
  const std::string who = work.name + ", " + what;
  const Allocation& memory = holder(who, address, bytes);
  if (memory.device != current_device(who)) {
    throw InternalError(who + ": " + memory.label() + " belongs to another device");
  }
  constexpr size_t kAlignment = 16;
  if (reinterpret_cast<uintptr_t>(address) % kAlignment != 0) {
    throw InternalError(fmt::format("{}: {} is not {}-byte aligned", who, address, kAlignment));
  }
  work.memory.push_back(&memory);
  return cells(address);
}

}  // namespace sardonyx::host_cuda

namespace sardonyx::ops::cuda {

using host_cuda::check_stream;
using host_cuda::Lock;
using host_cuda::Mark;
using host_cuda::Queue;
using host_cuda::Streams;

void use_device(int device) {
  const int count = device_count();
  if (device < 0 || device >= count) {
    throw Error("cuda:{}: there are {} devices", device, count);
  }
  host_cuda::device_of_thread = device;
}

Stream create_stream(Priority) {
  const int device = host_cuda::current_device("create_stream");
  Streams& streams = Streams::get();
  const Lock held = streams.lock();
  streams.check_device(device);
  return streams.create_stream(device);
}

void destroy(Stream stream) noexcept {
  Streams& streams = Streams::get();
  Lock held = streams.lock();
  try {
    const std::shared_ptr<Queue> queue = streams.queue("destroy", stream);
    streams.run_until(held, queue, queue->enqueued);
  } catch (const std::exception&) {
    // The device keeps it and says it in its next call.
  }
  streams.erase(stream);
}

void synchronize(Stream stream) {
  check_stream("synchronize", stream);
  Streams& streams = Streams::get();
  Lock held = streams.lock();
  streams.counts.synchronized();
  const std::shared_ptr<Queue> queue = streams.queue("synchronize", stream);
  streams.run_until(held, queue, queue->enqueued);
}

Event create_event(Timing timing) {
  const int device = host_cuda::current_device("create_event");
  Streams& streams = Streams::get();
  const Lock held = streams.lock();
  streams.check_device(device);
  return streams.create_event(device, timing == Timing::kOn);
}

void destroy(Event event) noexcept {
  Streams& streams = Streams::get();
  const Lock held = streams.lock();
  streams.erase(event);
}

void record(Event event, Stream stream) {
  check_stream("record", stream);
  Streams& streams = Streams::get();
  Lock held = streams.lock();
  const std::shared_ptr<Queue> queue = streams.queue("record", stream);
  streams.check_lives("record", event);
  if (event->device != queue->device) {
    throw InternalError(fmt::format("record: the event belongs to cuda:{}, the stream to cuda:{}",
                                    event->device, queue->device));
  }
  const auto mark = std::make_shared<Mark>();
  event->mark = mark;
  streams.add(held, queue, {.work = {.name = "record"}, .marks = mark});
}

void wait(Stream stream, Event event) {
  check_stream("wait", stream);
  Streams& streams = Streams::get();
  Lock held = streams.lock();
  streams.mark("wait", event);
  streams.add(held, streams.queue("wait", stream),
              {.work = {.name = "wait"}, .waits_for = event->mark});
}

bool done(Event event) {
  Streams& streams = Streams::get();
  Lock held = streams.lock();
  const std::shared_ptr<Mark> mark = (streams.mark("done", event), event->mark);
  if (host_cuda::reached(*mark)) return true;
  streams.run_towards(held, *mark);
  return false;
}

void synchronize(Event event) {
  Streams& streams = Streams::get();
  Lock held = streams.lock();
  streams.counts.synchronized();
  streams.mark("synchronize", event);
  const auto mark = event->mark;
  streams.run_until(held, mark->queue, mark->position);
}

double seconds_between(Event begin, Event end) {
  Streams& streams = Streams::get();
  const Lock held = streams.lock();
  for (const Event event : {begin, end}) {
    const Mark& mark = streams.mark("seconds_between", event);
    if (!event->timing) throw InternalError("seconds_between: an event was made without timing");
    if (!host_cuda::reached(mark)) throw InternalError("seconds_between: an event is not done");
  }
  return std::chrono::duration<double>(end->mark->reached - begin->mark->reached).count();
}

}  // namespace sardonyx::ops::cuda
