#include "tests/cuda/on_device.h"

#include "ops/core/cuda.h"
#include "tests/support/host_cuda/host_cuda.h"
#include "tests/support/host_cuda/memory.h"

namespace sardonyx::test {

OnDevice::OnDevice() {
  host_cuda::reset();
  ops::cuda::use_device(0);
}

void OnDevice::TearDown() {
  EXPECT_EQ(host_cuda::live_allocations(), 0u) << "device memory was not released";
}

void recover() { host_cuda::reset(); }

std::shared_ptr<std::byte> staging(size_t bytes) {
  const auto memory = std::make_shared<ops::cuda::PinnedMemory>(bytes);
  return {memory, memory->data()};
}

void run_in_another_order(uint64_t seed) {
  host_cuda::reset({.schedule = host_cuda::Schedule::kRandom, .seed = seed});
  ops::cuda::use_device(0);
}

}  // namespace sardonyx::test
