// The turn between rows and lanes, and the choice of the instruction set.
#include "tests/ops/lanes_support.h"

namespace sardonyx::ops::lanes {
namespace {

template <typename T>
void check_turns() {
  for (const LaneKernels<T>* kernels : all_kernels<T>()) {
    for (int length : {1, 3, 16, 31, 64, 100}) {
      for (int valid = 1; valid <= kLanes; ++valid) {
        const ptrdiff_t stride = length + 5;
        std::vector<T> rows(kLanes * stride, T(-1));
        for (int n = 0; n < valid; ++n) {
          for (int i = 0; i < length; ++i) rows[n * stride + i] = static_cast<T>(n * 1000 + i);
        }
        std::vector<T> lanes(length * kLanes, T(77));
        kernels->to_lanes(rows.data(), stride, valid, length, lanes.data());
        for (int i = 0; i < length; ++i) {
          for (int n = 0; n < kLanes; ++n) {
            ASSERT_EQ(lanes[i * kLanes + n], n < valid ? T(n * 1000 + i) : T(0))
                << name(kernels->isa) << length;
          }
        }
        std::vector<T> back(rows.size(), T(-1));
        kernels->from_lanes(lanes.data(), valid, length, back.data(), stride);
        ASSERT_EQ(back, rows) << name(kernels->isa) << " " << length << " " << valid;
      }
    }
  }
}

TEST(LanesLayout, to_lanes_and_back_keeps_rows_and_zeroes_the_rest_in_float) {
  check_turns<float>();
}
TEST(LanesLayout, to_lanes_and_back_keeps_rows_and_zeroes_the_rest_in_double) {
  check_turns<double>();
}

TEST(LanesDispatch, the_default_is_the_widest_supported_set) {
  const Isa isa = lane_kernels<float>().isa;
  EXPECT_EQ(isa, supported(Isa::kAvx512) ? Isa::kAvx512
                 : supported(Isa::kAvx2) ? Isa::kAvx2
                                         : Isa::kBaseline);
  EXPECT_EQ(lane_kernels<double>().isa, isa);
  EXPECT_STREQ(name(Isa::kAvx2), "avx2");
}

}  // namespace
}  // namespace sardonyx::ops::lanes
