// The probe that the speeds of kernels are compared with. No more than its order of magnitude: the
// machine may be busy.
#include "runtime/devices/peak.h"

#include <gtest/gtest.h>

namespace sardonyx::runtime {
namespace {

TEST(Peak, is_what_a_core_can_do) {
  for (const graph::DType dtype : {graph::DType::kFloat32, graph::DType::kFloat64}) {
    const double peak = probed_peak_flops(1, dtype);
    EXPECT_GT(peak, 1e7);
    EXPECT_LT(peak, 1e12);
  }
}

}  // namespace
}  // namespace sardonyx::runtime
