// Properties of the offset planner over random lifetimes.
#include "passes/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace sardonyx::passes {
namespace {

std::vector<Buffer> random_buffers(std::mt19937& random, int count) {
  std::vector<Buffer> buffers;
  for (int i = 0; i < count; ++i) {
    Buffer buffer;
    buffer.bytes = random() % 5000;
    buffer.first = static_cast<int>(random() % 50);
    buffer.last = buffer.first + static_cast<int>(random() % 10);
    buffers.push_back(buffer);
  }
  return buffers;
}

TEST(Arena, buffers_alive_at_the_same_time_never_overlap) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const size_t alignment = round % 2 == 0 ? kAlignment : kDeviceAlignment;
    std::vector<Buffer> buffers = random_buffers(random, 40);
    const size_t total = assign_offsets(buffers, alignment);
    size_t sum = 0;
    for (size_t i = 0; i < buffers.size(); ++i) {
      const Buffer& a = buffers[i];
      sum += align_up(a.bytes, alignment);
      EXPECT_EQ(a.offset % alignment, 0u);
      EXPECT_LE(a.offset + a.bytes, total);
      for (size_t j = 0; j < i; ++j) {
        const Buffer& b = buffers[j];
        if (a.bytes == 0 || b.bytes == 0 || a.last < b.first || b.last < a.first) continue;
        EXPECT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset)
            << "round " << round << ": " << i << " and " << j;
      }
    }
    EXPECT_LE(total, sum);
    EXPECT_GE(total, liveness_bound(buffers).bytes);
  }
}

TEST(Arena, liveness_bound_is_the_largest_sum_alive_at_one_time) {
  std::mt19937 random(2);
  for (int round = 0; round < 50; ++round) {
    const std::vector<Buffer> buffers = random_buffers(random, 30);
    size_t expected = 0;
    for (int time = 0; time < 70; ++time) {
      size_t alive = 0;
      for (const Buffer& b : buffers) {
        if (b.first <= time && time <= b.last) alive += align_up(b.bytes);
      }
      expected = std::max(expected, alive);
    }
    EXPECT_EQ(liveness_bound(buffers).bytes, expected);
  }
}

TEST(Arena, a_chain_of_equal_buffers_needs_two) {
  std::vector<Buffer> buffers;
  for (int i = 0; i < 10; ++i) buffers.push_back({1000, i, i + 1});
  EXPECT_EQ(assign_offsets(buffers), 2 * align_up(1000));
  EXPECT_EQ(liveness_bound(buffers).bytes, 2 * align_up(1000));
}

// Of a network: each activation lives until its gradient has read it.
std::vector<Buffer> chain(int count) {
  std::vector<Buffer> buffers;
  for (int i = 0; i < count; ++i) {
    const size_t bytes = 64 * (1 + static_cast<size_t>(i) % 7);
    buffers.push_back({bytes, i, 2 * count - i});
    buffers.push_back({bytes, 2 * count - i, 2 * count - i + 1});
  }
  return buffers;
}

TEST(Arena, very_many_buffers_are_placed_without_overlap_near_the_bound) {
  std::mt19937 random(3);
  std::vector<Buffer> mixed;
  for (int i = 0; i < 20000; ++i) {
    const int first = static_cast<int>(random() % 5000);
    mixed.push_back({random() % 5000, first, first + static_cast<int>(random() % 10)});
  }
  for (std::vector<Buffer> buffers : {mixed, chain(10000)}) {
    ASSERT_GT(buffers.size(), kManyBuffers);
    const size_t total = assign_offsets(buffers);
    EXPECT_LE(static_cast<double>(total), 1.2 * static_cast<double>(liveness_bound(buffers).bytes));
    // Swept in time, neighbours by offset: no buffer may reach into the next that is alive.
    std::sort(buffers.begin(), buffers.end(),
              [](const Buffer& a, const Buffer& b) { return a.first < b.first; });
    std::map<size_t, const Buffer*> alive;
    for (const Buffer& buffer : buffers) {
      std::erase_if(alive, [&](const auto& entry) { return entry.second->last < buffer.first; });
      if (buffer.bytes == 0) continue;
      EXPECT_EQ(buffer.offset % kAlignment, 0u);
      EXPECT_LE(buffer.offset + buffer.bytes, total);
      const auto next = alive.lower_bound(buffer.offset);
      if (next != alive.end()) ASSERT_LE(buffer.offset + buffer.bytes, next->first);
      if (next != alive.begin()) {
        const auto& [offset, before] = *std::prev(next);
        ASSERT_LE(offset + before->bytes, buffer.offset);
      }
      alive[buffer.offset] = &buffer;
    }
  }
}

}  // namespace
}  // namespace sardonyx::passes
