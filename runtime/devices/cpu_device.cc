#include "runtime/devices/cpu_device.h"

#include <unistd.h>

#include <thread>

#include "graph/support/bytes.h"
#include "graph/support/error.h"
#include "runtime/devices/cpu_executor.h"
#include "runtime/devices/kernel_clock.h"

namespace sardonyx::runtime {

CpuDevice::CpuDevice(const DeviceThreads& threads)
    : pool_(threads.count, threads.waiting, threads.cores),
      states_(HugeMemory(size_t{0})),
      arena_(HugeMemory(size_t{0})) {}

std::string CpuDevice::name() const {
  const char* isa = vector_floats() == 16 ? "avx512" : vector_floats() == 8 ? "avx2" : "baseline";
  return fmt::format("cpu ({}, {} thread{})", isa, threads(), threads() == 1 ? "" : "s");
}

size_t CpuDevice::l2_bytes() const {
  const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return bytes > 0 ? static_cast<size_t>(bytes) : size_t{1} << 20;
}

int CpuDevice::vector_floats() const {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return 16;
  if (__builtin_cpu_supports("avx2")) return 8;
#endif
  return 4;
}

void CpuDevice::reserve_states(size_t bytes) {
  if (bytes <= states_.size()) return;
  HugeMemory larger(bytes);
  copy_bytes(larger.data(), states_.data(), states_.size());
  states_ = std::move(larger);
}

void CpuDevice::reserve_arena(size_t bytes) {
  if (bytes > arena_.size()) arena_ = HugeMemory(bytes);
}

void CpuDevice::write_state(size_t offset, const void* host, size_t bytes) {
  CHECK(offset + bytes <= states_.size());
  copy_bytes(states_.data() + offset, host, bytes);
}

void CpuDevice::read_state(size_t offset, void* host, size_t bytes) const {
  CHECK(offset + bytes <= states_.size());
  copy_bytes(host, states_.data() + offset, bytes);
}

KernelTimes CpuDevice::measure(const std::vector<const ops::KernelDef*>& kernels,
                               const ops::KernelRequest& request, passes::RunsOn runs_on) {
  return measure_kernels(pool_, kernels, request, runs_on);
}

std::unique_ptr<Executor> CpuDevice::load(const passes::Plan& plan) {
  return std::make_unique<CpuExecutor>(plan, *this);
}

}  // namespace sardonyx::runtime
