// The generator against its published vectors, and what saved runs depend on.
#include "runtime/data/random.h"

#include <gtest/gtest.h>

namespace sardonyx::runtime {
namespace {

TEST(Random, philox_gives_the_published_vectors) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, streams_and_purposes_differ) {
  uint64_t base = random_u64(1, Purpose::kOrder, 0, 0);
  EXPECT_NE(base, random_u64(2, Purpose::kOrder, 0, 0));
  EXPECT_NE(base, random_u64(1, Purpose::kSyntheticNoise, 0, 0));
  EXPECT_NE(base, random_u64(1, Purpose::kOrder, 1, 0));
  EXPECT_NE(base, random_u64(1, Purpose::kOrder, uint64_t{1} << 32, 0));
  EXPECT_NE(base, random_u64(1, Purpose::kOrder, 0, 1));
}

TEST(Random, scaling_reaches_both_ends) {
  EXPECT_EQ(scale_to(0, 10), 0u);
  EXPECT_EQ(scale_to(UINT64_MAX, 10), 9u);
  EXPECT_EQ(scale_to(uint64_t{1} << 63, 10), 5u);
}

}  // namespace
}  // namespace sardonyx::runtime
