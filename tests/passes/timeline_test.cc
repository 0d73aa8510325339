// Both indexes against the plain loops they replace.
#include "passes/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace sardonyx::passes {
namespace {

TEST(ByteCurve, the_peak_is_the_first_highest_position) {
  ByteCurve curve({3, 7, 7, 1, 0});
  EXPECT_EQ(curve.peak().bytes, 7);
  EXPECT_EQ(curve.peak().time, 1);
  curve.add(1, 1, -1);
  EXPECT_EQ(curve.peak().time, 2);
  curve.add(3, 4, 10);
  EXPECT_EQ(curve.peak().bytes, 11);
  EXPECT_EQ(curve.peak().time, 3);
  curve.add(2, 1, 100);
  EXPECT_EQ(curve.peak().bytes, 11);
}

TEST(ByteCurve, follows_random_changes) {
  std::mt19937 random(1);
  for (const size_t size : {1u, 2u, 37u, 64u}) {
    std::vector<int64_t> plain(size);
    for (int64_t& bytes : plain) bytes = static_cast<int64_t>(random() % 100) - 50;
    ByteCurve curve(plain);
    for (int i = 0; i < 500; ++i) {
      const auto first = random() % size, last = first + random() % (size - first);
      const int64_t bytes = static_cast<int64_t>(random() % 41) - 20;
      curve.add(static_cast<int>(first), static_cast<int>(last), bytes);
      for (auto at = first; at <= last; ++at) plain[at] += bytes;
      const auto most = std::ranges::max_element(plain);
      ASSERT_EQ(curve.peak().bytes, *most);
      ASSERT_EQ(curve.peak().time, most - plain.begin());
    }
  }
}

TEST(SpanIndex, finds_the_first_item_that_counts) {
  std::mt19937 random(2);
  constexpr size_t kItems = 45;
  SpanIndex index(kItems);
  EXPECT_FALSE(index.first(0));
  std::vector<Span> plain(kItems);
  for (int i = 0; i < 2000; ++i) {
    const size_t item = random() % kItems;
    const int after = static_cast<int>(random() % 100);
    const Span span{after, after + static_cast<int>(random() % 20) - 5};
    index.set(item, span);
    plain[item] = span;
    const int time = static_cast<int>(random() % 100);
    const auto found = std::ranges::find_if(
        plain, [&](const Span& s) { return s.after < time && time <= s.until; });
    const auto got = index.first(time);
    ASSERT_EQ(got.value_or(kItems), static_cast<size_t>(found - plain.begin()));
  }
}

}  // namespace
}  // namespace sardonyx::passes
