#include "runtime/devices/huge_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "graph/support/error.h"

namespace sardonyx::runtime {

namespace {
constexpr size_t kHugePage = size_t{2} << 20;
}  // namespace

HugeMemory::HugeMemory(size_t bytes) : size_(bytes) {
  // Small memory needs no huge pages; a byte keeps data() non-null for empty plans.
  const bool huge = bytes >= kHugePage;
  const size_t alignment = huge ? kHugePage : 4096;
  mapped_ = (bytes == 0 ? 1 : bytes) + alignment;
  mapping_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping_ == MAP_FAILED) {
    mapping_ = nullptr;
    throw Error(
        "can't get {} bytes of memory ({}); use a smaller --micro-batch or more --accumulate",
        bytes, std::strerror(errno));
  }
  const auto address = reinterpret_cast<uintptr_t>(mapping_);
  data_ = reinterpret_cast<std::byte*>((address + alignment - 1) / alignment * alignment);
  if (huge) madvise(data_, bytes, MADV_HUGEPAGE);
}

HugeMemory::~HugeMemory() {
  if (mapping_ != nullptr) munmap(mapping_, mapped_);
}

HugeMemory::HugeMemory(HugeMemory&& other) noexcept { *this = std::move(other); }

HugeMemory& HugeMemory::operator=(HugeMemory&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_, other.mapped_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace sardonyx::runtime
