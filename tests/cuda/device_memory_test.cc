// What a CUDA device keeps: its states, whatever their size.
#include <numeric>
#include <vector>

#include "runtime/devices/cuda_device.h"
#include "tests/cuda/on_device.h"

namespace sardonyx::runtime {

namespace {

using CudaDeviceMemory = test::OnDevice;

TEST_F(CudaDeviceMemory, keeps_its_states_when_they_grow_and_gives_the_rest_zeros) {
  CudaDevice device(0);
  device.reserve_states(16);
  const std::vector<float> values = {1, 2, 3, 4};
  device.write_state(0, values.data(), 16);
  device.reserve_states(1024);
  std::vector<float> got(8);
  device.read_state(0, got.data(), 32);
  EXPECT_EQ(got, (std::vector<float>{1, 2, 3, 4, 0, 0, 0, 0}));
}

TEST_F(CudaDeviceMemory, copies_more_than_its_staging_holds) {
  constexpr size_t kCount = (size_t{20} << 20) / sizeof(float) + 3;
  CudaDevice device(0);
  device.reserve_states(kCount * sizeof(float));
  std::vector<float> values(kCount), got(kCount);
  std::iota(values.begin(), values.end(), 0.0f);
  device.write_state(0, values.data(), kCount * sizeof(float));
  device.read_state(0, got.data(), kCount * sizeof(float));
  EXPECT_TRUE(got == values);
}

}  // namespace

}  // namespace sardonyx::runtime
