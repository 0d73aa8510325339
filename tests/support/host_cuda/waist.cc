// ops/core/cuda.h on the host: the device, memory and copies. Streams and events: streams.cc.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "graph/support/error.h"
#include "ops/core/cuda.h"
#include "tests/support/host_cuda/host_cuda.h"
#include "tests/support/host_cuda/memory.h"
#include "tests/support/host_cuda/streams.h"

namespace sardonyx::host_cuda {

namespace {

constexpr std::align_val_t kPinnedAlignment{256};

enum class Access : uint8_t { kRead, kWrite };

// Host memory that copies may reach, and the enqueued copies that do.
class Pinned {
 public:
  static Pinned& get() {
    static auto* pinned = new Pinned;
    return *pinned;
  }

  // While it lives, a copy is enqueued.
  class Use {
   public:
    Use(Access access, std::byte* begin, size_t bytes)
        : access_(access), begin_(begin), end_(begin + bytes) {
      get().uses_.push_back(this);
    }
    ~Use() {
      const std::lock_guard lock(get().mutex_);
      std::erase(get().uses_, this);
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    bool meets(const std::byte* begin, const std::byte* end) const {
      return begin < end_ && begin_ < end;
    }
    Access access() const { return access_; }

   private:
    Access access_;
    std::byte *begin_, *end_;
  };

  void* allocate(size_t bytes) {
    auto* memory = static_cast<std::byte*>(::operator new(bytes, kPinnedAlignment));
    std::memset(memory, 0xff, bytes);
    const std::lock_guard lock(mutex_);
    blocks_[memory] = bytes;
    return memory;
  }
  void release(void* memory) {
    {
      const std::lock_guard lock(mutex_);
      const auto it = blocks_.find(static_cast<std::byte*>(memory));
      CHECK(it != blocks_.end(), "{} was released, which allocate_pinned didn't return", memory);
      if (used(it->first, it->second, std::nullopt)) {
        std::fprintf(stderr,
                     "host_cuda: pinned memory is released while a copy of it is enqueued\n");
        std::abort();
      }
      blocks_.erase(it);
    }
    ::operator delete(memory, kPinnedAlignment);
  }
  // Throws InternalError unless all of it is pinned.
  void check(const std::string& who, const void* host, size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto* begin = static_cast<const std::byte*>(host);
    auto it = blocks_.upper_bound(const_cast<std::byte*>(begin));
    if (it == blocks_.begin() || begin >= std::prev(it)->first + std::prev(it)->second) {
      throw InternalError(
          fmt::format("{}: {} is not pinned memory, it is {}", who, host,
                      is_device_address(host) ? "device memory" : "pageable host memory"));
    }
    --it;
    if (begin + bytes > it->first + it->second) {
      throw InternalError(
          fmt::format("{}: reaches {} bytes past the end of {} bytes of pinned "
                      "memory",
                      who, begin + bytes - (it->first + it->second), it->second));
    }
  }
  // Notes a copy, and whether others that do `other` with the same bytes are enqueued already.
  std::pair<std::shared_ptr<Use>, bool> use(Access access, const void* host, size_t bytes,
                                            Access other) {
    const std::lock_guard lock(mutex_);
    auto* begin = static_cast<std::byte*>(const_cast<void*>(host));
    const bool others = used(begin, bytes, other);
    return {std::make_shared<Use>(access, begin, bytes), others};
  }

 private:
  bool used(const std::byte* begin, size_t bytes, std::optional<Access> access) const {
    return std::any_of(uses_.begin(), uses_.end(), [&](const Use* use) {
      return use->meets(begin, begin + bytes) && (!access || use->access() == *access);
    });
  }

  std::mutex mutex_;
  std::map<std::byte*, size_t> blocks_;
  std::vector<const Use*> uses_;
};

uint64_t checksum(const void* data, size_t bytes) {
  uint64_t sum = bytes;
  const auto* at = static_cast<const std::byte*>(data);
  for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, at + i, std::min(sizeof word, bytes - i));
    sum = (sum ^ word) * 0x9e3779b97f4a7c15u;
    sum ^= sum >> 32;
  }
  return sum;
}

// A copy is checked as it is enqueued; `memory` gets what it touches on the device.
std::byte* device_side(Work& work, const void* address, size_t bytes) {
  const Allocation& memory = holder(work.name, address, bytes);
  if (memory.device != current_device(work.name)) {
    throw InternalError(work.name + ": " + memory.label() + " belongs to another device");
  }
  work.memory.push_back(&memory);
  return cells(address);
}

Work copy_work(const char* what, ops::cuda::Stream stream, size_t bytes) {
  Work work;
  work.name = fmt::format("{} of {} bytes", what, bytes);
  check_stream(work.name, stream);
  return work;
}

}  // namespace

}  // namespace sardonyx::host_cuda

namespace sardonyx::ops::cuda {

using host_cuda::Access;
using host_cuda::Kind;
using host_cuda::Pinned;
using host_cuda::Work;

std::string why_unavailable() {
  return host_cuda::machine().devices > 0 ? "" : host_cuda::machine().why_none;
}

int device_count() { return host_cuda::machine().devices; }

DeviceFacts device_facts(int device) {
  CHECK(device >= 0 && device < device_count());
  DeviceFacts facts;
  facts.name = "host stand-in";
  facts.major = 9;
  facts.minor = 0;
  facts.processors = 8;
  facts.memory_bytes = host_cuda::machine().memory_bytes;
  facts.l2_bytes = size_t{32} << 20;
  return facts;
}

size_t free_bytes() {
  const size_t used = host_cuda::used_on(host_cuda::current_device("free_bytes"));
  return host_cuda::machine().memory_bytes - used;
}

void* allocate(size_t bytes) {
  host_cuda::count_allocation();
  return host_cuda::allocate_on(host_cuda::current_device("allocate"), bytes);
}

void release(void* device_memory) noexcept {
  if (device_memory == nullptr) return;
  try {
    host_cuda::finish_device(host_cuda::holder("release", device_memory, 0).device);
  } catch (const InternalError& error) {
    // The device keeps it and says it in its next call.
  }
  host_cuda::release_memory(device_memory);
}

void* allocate_pinned(size_t bytes) {
  host_cuda::count_allocation();
  return Pinned::get().allocate(bytes);
}

void release_pinned(void* host_memory) noexcept {
  if (host_memory != nullptr) Pinned::get().release(host_memory);
}

void copy_to_device(Stream stream, void* device, const void* host, size_t bytes) {
  Work work = host_cuda::copy_work("copy_to_device", stream, bytes);
  if (bytes == 0) return;
  Pinned::get().check(work.name, host, bytes);
  std::byte* to = host_cuda::device_side(work, device, bytes);
  // What an enqueued copy still writes may change until this one runs.
  auto [use, changes] = Pinned::get().use(Access::kRead, host, bytes, Access::kWrite);
  const uint64_t sum = changes ? 0 : host_cuda::checksum(host, bytes);
  work.run = [=, use = std::move(use), changes = changes, name = work.name] {
    if (!changes && host_cuda::checksum(host, bytes) != sum) {
      throw InternalError(name + ": the host changed the bytes between the call and the copy");
    }
    std::memcpy(to, host, bytes);
  };
  host_cuda::enqueue(stream, Kind::kCopy, std::move(work));
}

void copy_to_host(Stream stream, void* host, const void* device, size_t bytes) {
  Work work = host_cuda::copy_work("copy_to_host", stream, bytes);
  if (bytes == 0) return;
  Pinned::get().check(work.name, host, bytes);
  const std::byte* from = host_cuda::device_side(work, device, bytes);
  auto [use, is_read] = Pinned::get().use(Access::kWrite, host, bytes, Access::kRead);
  // Who reads before the copy is done finds NaN.
  if (!is_read) std::memset(host, 0xff, bytes);
  work.run = [=, use = std::move(use)] { std::memcpy(host, from, bytes); };
  host_cuda::enqueue(stream, Kind::kCopy, std::move(work));
}

void copy_on_device(Stream stream, void* to, const void* from, size_t bytes) {
  Work work = host_cuda::copy_work("copy_on_device", stream, bytes);
  if (bytes == 0) return;
  std::byte* to_cells = host_cuda::device_side(work, to, bytes);
  const std::byte* from_cells = host_cuda::device_side(work, from, bytes);
  if (to_cells < from_cells + bytes && from_cells < to_cells + bytes) {
    throw InternalError(work.name + ": source and destination overlap");
  }
  work.run = [=] { std::memcpy(to_cells, from_cells, bytes); };
  host_cuda::enqueue(stream, Kind::kCopy, std::move(work));
}

void fill_zero(Stream stream, void* device, size_t bytes) {
  Work work = host_cuda::copy_work("fill_zero", stream, bytes);
  if (bytes == 0) return;
  std::byte* to = host_cuda::device_side(work, device, bytes);
  work.run = [=] { std::memset(to, 0, bytes); };
  host_cuda::enqueue(stream, Kind::kCopy, std::move(work));
}

}  // namespace sardonyx::ops::cuda
