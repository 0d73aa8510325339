// What saved runs depend on: the numbers are those of the generator, stream by stream.
#include "runtime/data/random.h"

#include <gtest/gtest.h>

namespace sardonyx::runtime {
namespace {

uint64_t first(uint64_t seed, Purpose purpose, int64_t epoch, int64_t index) {
  return RandomSequence(data_stream(seed, purpose, epoch), index).next64();
}

TEST(Random, a_sequence_is_the_elements_of_one_sample_in_order) {
  uint64_t stream = data_stream(3, Purpose::kOrder, 5);
  RandomSequence sequence(stream, 7);
  for (int64_t i = 0; i < 200; ++i) EXPECT_EQ(sequence.next(), ops::random_bits(stream, 7, i));
}

TEST(Random, streams_and_purposes_differ) {
  uint64_t base = first(1, Purpose::kOrder, 0, 0);
  EXPECT_EQ(base, first(1, Purpose::kOrder, 0, 0));
  EXPECT_NE(base, first(2, Purpose::kOrder, 0, 0));
  EXPECT_NE(base, first(1, Purpose::kSyntheticNoise, 0, 0));
  EXPECT_NE(base, first(1, Purpose::kOrder, 1, 0));
  EXPECT_NE(base, first(1, Purpose::kOrder, 0, 1));
}

TEST(Random, a_bound_is_kept_and_every_number_below_it_comes) {
  RandomSequence sequence(data_stream(1, Purpose::kOrder, 0), 0);
  std::array<int, 10> counts = {};
  for (int i = 0; i < 10000; ++i) ++counts.at(sequence.below(10));
  for (int count : counts) EXPECT_NEAR(count, 1000, 150);  // 5 sigma
  EXPECT_EQ(sequence.below(1), 0u);
}

}  // namespace
}  // namespace sardonyx::runtime
