// cuda_device_tests: the tests of tests/cuda/ that aren't about the stand-in, on cuda:0. Without a
// device it runs nothing, says why and ends with kSkipped, which ctest knows.
#include "tests/cuda/on_device.h"

#include <bit>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ops/core/cuda.h"

namespace sardonyx::test {

OnDevice::OnDevice() { ops::cuda::use_device(0); }

void OnDevice::TearDown() {}

void recover() {}

std::shared_ptr<std::byte> staging(size_t bytes) {
  // By size, a power of two; as long as the process.
  static auto& idle = *new std::map<size_t, std::vector<ops::cuda::PinnedMemory>>;
  const size_t size = std::bit_ceil(bytes);
  auto& pool = idle[size];
  if (pool.empty()) pool.emplace_back(size);
  const auto memory = std::make_shared<ops::cuda::PinnedMemory>(std::move(pool.back()));
  pool.pop_back();
  return {memory->data(), [memory, &pool](std::byte*) { pool.push_back(std::move(*memory)); }};
}

void run_in_another_order(uint64_t) {}

}  // namespace sardonyx::test

int main(int argc, char** argv) {
  constexpr int kSkipped = 77;
  ::testing::InitGoogleTest(&argc, argv);
  const std::string reason = sardonyx::ops::cuda::why_unavailable();
  if (!reason.empty() && !GTEST_FLAG_GET(list_tests)) {
    std::printf("skipped: %s\n", reason.c_str());
    return kSkipped;
  }
  return RUN_ALL_TESTS();
}
