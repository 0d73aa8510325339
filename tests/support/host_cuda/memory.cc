#include "tests/support/host_cuda/memory.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "graph/support/error.h"
#include "tests/support/host_cuda/host_cuda.h"

namespace sardonyx::host_cuda {

namespace {

constexpr size_t kReserved = size_t{256} << 30;  // addresses, not memory
constexpr size_t kPage = 4096;
constexpr size_t kAlignment = 256;
constexpr size_t kCanaryBefore = 64;

size_t rounded(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

thread_local const std::string* who_runs = nullptr;

struct sigaction actions_before[NSIG];
void on_fault(int signal, siginfo_t* info, void*);

class Space {
 public:
  static Space& get() {
    static auto* space = new Space;  // faults may come while the process ends
    return *space;
  }

  std::mutex mutex;
  std::map<const std::byte*, Allocation> allocations;  // by address; those released, too
  std::map<int, size_t> used;
  size_t live = 0;

  bool is_address(const void* p) const { return inside(addresses_, p); }
  bool is_cell(const void* p) const { return inside(cells_, p); }
  std::byte* cell(const void* address) const {
    return cells_ + (static_cast<const std::byte*>(address) - addresses_);
  }
  const std::byte* address(const void* cell) const {
    return addresses_ + (static_cast<const std::byte*>(cell) - cells_);
  }
  // Pages with inaccessible ones on both sides.
  std::byte* take(size_t bytes) {
    CHECK(next_ + bytes + kPage <= kReserved, "the stand-in has no device addresses left");
    std::byte* taken = addresses_ + next_;
    next_ += bytes + kPage;
    return taken;
  }
  // The one that starts last at or before `address`; nullptr: none.
  const Allocation* before(const void* address) const {
    const auto it = allocations.upper_bound(static_cast<const std::byte*>(address));
    return it == allocations.begin() ? nullptr : &std::prev(it)->second;
  }

 private:
  Space() {
    // Below where the system puts anything: no half of another pointer, left in the padding of a
    // struct, and no number makes up an address in here.
    addresses_ = reserve(0x7e90'0000'0000);
    cells_ = reserve(0x7ea0'0000'0000);
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    for (const int signal : {SIGSEGV, SIGBUS, SIGILL}) {
      sigaction(signal, &action, &actions_before[signal]);
    }
  }
  static std::byte* reserve(uintptr_t wanted) {
    void* memory = mmap(reinterpret_cast<void*>(wanted), kReserved, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(memory != MAP_FAILED, "no addresses for the stand-in's device memory");
    return static_cast<std::byte*>(memory);
  }
  static bool inside(const std::byte* begin, const void* p) {
    return p >= begin && p < begin + kReserved;
  }

  std::byte *addresses_ = nullptr, *cells_ = nullptr;
  size_t next_ = kPage;
};

// A text without the heap, in which a fault may have come.
class Text {
 public:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    const size_t room = sizeof text_ - 1 - size_;
    const size_t needed =
        fmt::format_to_n(text_ + size_, room, format, std::forward<Args>(args)...).size;
    size_ += std::min(room, needed);
  }
  // "12 bytes past the end of allocation 3 (...)".
  void add_place(const std::byte* address, const Allocation* near) {
    if (near == nullptr) return add("where no allocation ever was");
    const auto offset = static_cast<size_t>(address - near->address);
    if (offset < near->bytes) {
      add("at byte {} of ", offset);
    } else {
      add("{} bytes past the end of ", offset - near->bytes);
    }
    add("allocation {} ({} bytes on cuda:{})", near->number, near->bytes, near->device);
    if (!near->live) add(", which was released");
  }
  const char* c_str() const { return text_; }

 private:
  char text_[512] = {};
  size_t size_ = 0;
};

Text fault_message(int signal, const void* at) {
  Space& space = Space::get();
  Text text;
  text.add("{}", who_runs == nullptr ? "host code" : who_runs->c_str());
  const std::unique_lock lock(space.mutex, std::try_to_lock);
  if (signal == SIGILL) {
    text.add(": misaligned access, or another behaviour that C++ leaves undefined");
  } else if (space.is_address(at)) {
    text.add(" follows a device pointer{}: ",
             who_runs == nullptr ? "" : " that didn't come with the arguments of its launch");
    text.add_place(static_cast<const std::byte*>(at), space.before(at));
  } else if (space.is_cell(at)) {
    const std::byte* address = space.address(at);
    text.add(" touches device memory that isn't there: ");
    text.add_place(address, space.before(address));
  } else {
    text.add(" touches {}, which is no device memory", at);
  }
  return text;
}

void on_fault(int signal, siginfo_t* info, void*) {
  const Space& space = Space::get();
  const void* at = info->si_addr;
  if (who_runs == nullptr && !space.is_address(at) && !space.is_cell(at)) {
    // Not ours: it comes again at once and finds the handler that was there before.
    sigaction(signal, &actions_before[signal], nullptr);
    return;
  }
  std::fprintf(stderr, "host_cuda: %s\n", fault_message(signal, at).c_str());
  std::abort();
}

bool holds_only_ones(const std::byte* begin, const std::byte* end) {
  return std::all_of(begin, end, [](std::byte b) { return b == std::byte{0xff}; });
}

}  // namespace

std::string Allocation::label() const {
  return fmt::format("allocation {} ({} bytes on cuda:{})", number, bytes, device);
}

void* allocate_on(int device, size_t bytes) {
  Space& space = Space::get();
  const std::lock_guard lock(space.mutex);
  const size_t limit = machine().memory_bytes;
  if (bytes > limit - std::min(limit, space.used[device])) {
    throw Error("out of memory: cuda:{} has {} of {} bytes left, {} were asked for", device,
                limit - space.used[device], limit, bytes);
  }
  // The end of the last 256 bytes is the end of a page.
  const size_t size = rounded(bytes, kAlignment);
  const size_t pages = rounded(size + kCanaryBefore, kPage);
  std::byte* begin = space.take(pages);
  std::byte* address = begin + pages - size;
  CHECK(mprotect(space.cell(begin), pages, PROT_READ | PROT_WRITE) == 0,
        "no memory for the stand-in's device");
  std::memset(space.cell(begin), 0xff, pages);
  space.allocations[address] = {space.allocations.size() + 1, device, address, bytes, true};
  space.used[device] += bytes;
  ++space.live;
  return address;
}

void release_memory(void* address) {
  Space& space = Space::get();
  const std::lock_guard lock(space.mutex);
  const auto it = space.allocations.find(static_cast<std::byte*>(address));
  CHECK(it != space.allocations.end(), "{} was released, which no allocation returned", address);
  Allocation& allocation = it->second;
  CHECK(allocation.live, "{} was released twice", allocation.label());
  allocation.live = false;
  const size_t size = rounded(allocation.bytes, kAlignment);
  const size_t pages = rounded(size + kCanaryBefore, kPage);
  std::byte* begin = space.cell(allocation.address + size) - pages;
  madvise(begin, pages, MADV_DONTNEED);
  mprotect(begin, pages, PROT_NONE);
  space.used[allocation.device] -= allocation.bytes;
  --space.live;
}

size_t used_on(int device) {
  Space& space = Space::get();
  const std::lock_guard lock(space.mutex);
  return space.used[device];
}

size_t live_allocations() {
  Space& space = Space::get();
  const std::lock_guard lock(space.mutex);
  return space.live;
}

const Allocation& holder(const std::string& who, const void* address, size_t bytes) {
  Space& space = Space::get();
  const std::lock_guard lock(space.mutex);
  if (!space.is_address(address)) {
    throw InternalError(fmt::format("{}: {} is not device memory, it is {}", who, address,
                                    address == nullptr   ? "null"
                                    : is_mapped(address) ? "host memory"
                                                         : "no memory at all"));
  }
  const auto* at = static_cast<const std::byte*>(address);
  const Allocation* found = space.before(at);
  if (found == nullptr || !found->live || at > found->address + found->bytes) {
    Text where;
    where.add_place(at, found);
    throw InternalError(fmt::format("{}: {} is {}", who, address, where.c_str()));
  }
  if (at + bytes > found->address + found->bytes) {
    throw InternalError(fmt::format("{}: {} bytes from byte {} on reach beyond {}", who, bytes,
                                    at - found->address, found->label()));
  }
  return *found;
}

bool is_device_address(const void* address) { return Space::get().is_address(address); }

std::byte* cells(const void* address) { return Space::get().cell(address); }

void check_bounds(const std::string& who, const Allocation& allocation) {
  Space& space = Space::get();
  {
    const std::lock_guard lock(space.mutex);
    if (!allocation.live) {
      throw InternalError(who + " ran after the release of " + allocation.label());
    }
  }
  const std::byte* begin = space.cell(allocation.address);
  const std::byte* end = begin + allocation.bytes;
  if (!holds_only_ones(begin - kCanaryBefore, begin)) {
    throw InternalError(who + " wrote before the begin of " + allocation.label());
  }
  if (!holds_only_ones(end, begin + rounded(allocation.bytes, kAlignment))) {
    throw InternalError(who + " wrote past the end of " + allocation.label());
  }
}

bool is_mapped(const void* address) {
  const auto page = reinterpret_cast<uintptr_t>(address) / kPage * kPage;
  unsigned char resident = 0;
  return mincore(reinterpret_cast<void*>(page), 1, &resident) == 0;
}

Running::Running(const std::string& who) { who_runs = &who; }
Running::~Running() { who_runs = nullptr; }

}  // namespace sardonyx::host_cuda
