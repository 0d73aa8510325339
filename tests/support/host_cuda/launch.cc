// What a launch checks before its kernel is enqueued.
#include <cuda_device.cuh>

#include <utility>

#include "graph/support/error.h"
#include "ops/core/cuda.cuh"
#include "tests/support/host_cuda/block.h"
#include "tests/support/host_cuda/streams.h"

namespace sardonyx::host_cuda {

struct Arguments::Impl {
  ops::cuda::StreamHandle* stream;
  Work work;
};

namespace {

// LAUNCH((kernel<T, 4>), ...) has the parentheses in its name.
std::string without_parentheses(std::string name) {
  if (name.starts_with('(') && name.ends_with(')')) name = name.substr(1, name.size() - 2);
  return name;
}

// Plausible as an address of a process: no small number, no float, no pair of them, and above what
// the address sanitizer maps for itself.
bool may_be_address(uintptr_t word) {
  return word >= uintptr_t{0x1008} << 32 && word < uintptr_t{1} << 47;
}

}  // namespace

Arguments::Arguments(const char* name, ops::cuda::StreamHandle* stream)
    : impl_(std::make_unique<Impl>()) {
  impl_->stream = stream;
  impl_->work.name = "kernel " + without_parentheses(name);
  check_stream(impl_->work.name, stream);
}

Arguments::~Arguments() = default;

const void* Arguments::pointer(const void* address, size_t alignment) {
  if (address == nullptr) return nullptr;
  const std::string& who = impl_->work.name;
  const Allocation& memory = holder(who, address, 0);
  if (memory.device != current_device(who)) {
    throw InternalError(who + ": " + memory.label() + " belongs to another device");
  }
  if (reinterpret_cast<uintptr_t>(address) % alignment != 0) {
    throw InternalError(fmt::format("{}: byte {} of {} is misaligned for elements of {} bytes", who,
                                    static_cast<const std::byte*>(address) - memory.address,
                                    memory.label(), alignment));
  }
  impl_->work.memory.push_back(&memory);
  return cells(address);
}

void Arguments::words(void* bytes, size_t size) {
  auto* at = static_cast<std::byte*>(bytes);
  for (size_t offset = 0; offset + sizeof(uintptr_t) <= size; offset += sizeof(uintptr_t)) {
    uintptr_t word = 0;
    std::memcpy(&word, at + offset, sizeof word);
    const auto* address = reinterpret_cast<const void*>(word);
    if (is_device_address(address) || (may_be_address(word) && is_mapped(address))) {
      const void* translated = pointer(address, 1);
      std::memcpy(at + offset, &translated, sizeof translated);
    }
  }
}

void Arguments::enqueue(const ops::cuda::Grid& grid, std::function<void()> thread) {
  constexpr unsigned kMostThreads = 1024, kMostX = 0x7fffffff, kMostY = 65535;
  Work& work = impl_->work;
  if (grid.threads < 1 || grid.threads > kMostThreads || grid.x < 1 || grid.x > kMostX ||
      grid.y < 1 || grid.y > kMostY) {
    throw InternalError(fmt::format("{}: no device takes a grid of {} x {} blocks of {} threads",
                                    work.name, grid.x, grid.y, grid.threads));
  }
  work.run = [name = work.name, grid, thread = std::move(thread)] { run_grid(name, grid, thread); };
  ops::cuda::StreamHandle* stream = impl_->stream;
  host_cuda::enqueue(stream, Kind::kKernel, std::move(work));
}

}  // namespace sardonyx::host_cuda
