#include "runtime/replicas.h"

#include <algorithm>
#include <cstring>
#include <exception>

#include "graph/support/error.h"
#include "graph/support/text.h"
#include "runtime/devices/cores.h"
#include "runtime/devices/cuda.h"

namespace sardonyx::runtime {

namespace {

int core_count() { return static_cast<int>(usable_cores().size()); }

}  // namespace

// Threads are bound to cores only when this process takes every core: two runs that share a machine
// would otherwise sit on the same ones. A single replica leaves its threads to the system too.
struct Replicas::Threads {
  Threads(int replicas, int threads) {
    if (threads > 0 && threads < replicas) {
      throw Error("{} replicas need at least as many threads, --threads gives {}", replicas,
                  threads);
    }
    each = std::max(1, (threads > 0 ? threads : core_count()) / replicas);
    waiting = waiting_of(replicas * each);
    bound = replicas > 1 && replicas * each == core_count();
  }

  std::vector<int> cores_of(int replica) const {
    if (!bound) return {};
    const auto first = usable_cores().begin() + replica * each;
    return {first, first + each};
  }
  std::vector<int> cores_of_drivers(int replicas) const {
    std::vector<int> cores;
    for (int r = 0; bound && r < replicas; ++r) cores.push_back(cores_of(r)[0]);
    return cores;
  }

  int each = 1;  // per replica
  Waiting waiting = Waiting::kSleep;
  bool bound = false;
};

Replicas::Replicas(const std::vector<std::string>& devices, int threads)
    : Replicas(devices, Threads(static_cast<int>(devices.size()), threads)) {}

Replicas::Replicas(const std::vector<std::string>& devices, const Threads& threads)
    : cores_(threads.cores_of_drivers(static_cast<int>(devices.size()))),
      group_(static_cast<int>(devices.size()), threads.waiting),
      drivers_(static_cast<int>(devices.size()), threads.waiting, cores_, Shares::kOwnThread) {
  for (const std::string& name : devices) {
    devices_.push_back(
        make_device(name, {threads.each, threads.waiting, threads.cores_of(size())}));
  }
  for (const auto& device : devices_) {
    int first = 0;
    while (devices_[static_cast<size_t>(first)]->name() != device->name()) ++first;
    places_.push_back(first);
  }
  if (size() > 1) linked_ = link_cuda_devices(devices_, group_);
}

int Replicas::threads() const {
  int threads = 0;
  for (const auto& device : devices_) threads += device->threads();
  return threads;
}

std::vector<pid_t> Replicas::worker_ids() const {
  std::vector<pid_t> ids = drivers_.worker_ids();
  for (const auto& device : devices_) {
    const std::vector<pid_t> own = device->worker_ids();
    ids.insert(ids.end(), own.begin(), own.end());
  }
  return ids;
}

std::string Replicas::name() const {
  const std::string one = device(0).name();
  return size() == 1 ? one : fmt::format("{} x {}", one, size());
}

void Replicas::run(const char* doing, ops::FunctionRef<void(int, const Links&)> body) {
  if (size() == 1) return body(0, {});
  const ScopedCore core(cores_.empty() ? -1 : cores_[0]);
  in_doubt_ = false;
  drivers_.run(size(), [&](int replica) {
    try {
      with_context([&] { return fmt::format("{} replica {}", doing, replica); },
                   [&] {
                     body(replica, links_of(replica));
                     finish(replica);
                   });
      group_.leave(replica);
    } catch (...) {
      group_.abort(replica, std::current_exception());
      if (DeviceLink* link = linked_.links[static_cast<size_t>(replica)].get()) link->abort();
    }
  });
  const std::exception_ptr failure = group_.failure();
  for (const auto& link : linked_.links) {
    if (link != nullptr) link->reset();
  }
  group_.reset();
  if (failure != nullptr) std::rethrow_exception(failure);
}

void Replicas::join() {
  if (linked_.links.empty()) return;
  run("joining", [&](int replica, const Links&) {
    if (DeviceLink* link = linked_.links[static_cast<size_t>(replica)].get()) link->join();
  });
}

Links Replicas::links_of(int replica) {
  ops::DeviceCommunicator* device = linked_.links[static_cast<size_t>(replica)].get();
  if (device != nullptr) return {nullptr, device};
  return {&group_.rank(replica), nullptr};
}

// On a device the sums are still under way when the thread has started everything.
void Replicas::finish(int replica) {
  DeviceLink* link = linked_.links[static_cast<size_t>(replica)].get();
  if (link == nullptr) return;
  try {
    link->finish();
  } catch (...) {
    in_doubt_ = true;
    throw;
  }
}

void Replicas::write_state(const passes::StateTable::Entry& state, const void* host) {
  for (const auto& device : devices_) {
    device->write_state(state.offset, host, state.type.bytes());
  }
}

graph::Tensor Replicas::read_state(const passes::StateTable::Entry& state, int replica) const {
  graph::Tensor tensor(state.type.dtype, state.type.shape());
  const auto bytes = tensor.mutable_bytes();
  device(replica).read_state(state.offset, bytes.data(), bytes.size());
  return tensor;
}

namespace {

// With as many digits as tell it from every other value of its type.
std::string element(const graph::Tensor& tensor, int64_t i) {
  if (tensor.dtype() != graph::DType::kFloat32) return fmt::format("{}", tensor.as_double(i));
  return fmt::format("{}", static_cast<float>(tensor.as_double(i)));
}

}  // namespace

std::string Replicas::first_difference(const passes::StateTable& states) const {
  for (const auto& state : states.entries()) {
    if (state.role == graph::StateRole::kAccumulator) continue;  // each adds up its own
    const graph::Tensor first = read_state(state, 0);
    for (int r = 1; r < size(); ++r) {
      const graph::Tensor other = read_state(state, r);
      if (first.identical(other)) continue;
      int64_t i = 0;
      const size_t size = graph::dtype_size(state.type.dtype);
      while (std::memcmp(first.aligned_data() + static_cast<size_t>(i) * size,
                         other.aligned_data() + static_cast<size_t>(i) * size, size) == 0) {
        ++i;
      }
      return fmt::format("{} differs: element {} is {} on replica 0 and {} on replica {}",
                         support::in_quotes(state.name), i, element(first, i), element(other, i),
                         r);
    }
  }
  return "";
}

}  // namespace sardonyx::runtime
