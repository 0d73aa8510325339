// The device that tests of the CUDA side speak to: the stand-in in cuda_tests, cuda:0 itself in
// cuda_device_tests. A file that includes tests/support/host_cuda/ belongs to the first alone.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sardonyx::test {

// The thread speaks to cuda:0; the stand-in is fresh, and nothing may be left on it.
class OnDevice : public ::testing::Test {
 protected:
  OnDevice();
  void TearDown() override;
};

// After work on the device failed: so that other work can run. A device that faults stays faulty
// until the process ends.
void recover();
// Pinned memory for the copies of one run; that of a device comes from a pool, since it is slow to
// give some.
std::shared_ptr<std::byte> staging(size_t bytes);
// Whether this machine has all that are named ("cuda:1", "cpu"); the stand-in has two devices.
bool has_devices(const std::vector<std::string>& names);
// From now on the stand-in runs what is enqueued in another order, by the seed; a device has its
// own.
void run_in_another_order(uint64_t seed);

}  // namespace sardonyx::test
