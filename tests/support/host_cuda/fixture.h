// The base of tests on the stand-in of the CUDA device: a fresh machine, the thread speaks to
// cuda:0, and nothing is left on the device when the test is over.
#pragma once

#include <gtest/gtest.h>

#include "ops/core/cuda.h"
#include "tests/support/host_cuda/host_cuda.h"
#include "tests/support/host_cuda/memory.h"

namespace sardonyx::host_cuda {

class HostCuda : public ::testing::Test {
 protected:
  HostCuda() {
    reset();
    ops::cuda::use_device(0);
  }
  void TearDown() override {
    EXPECT_EQ(live_allocations(), 0u) << "device memory was not released";
  }
};

}  // namespace sardonyx::host_cuda
