// Orders, tails and resumption of the sampler.
#include "runtime/data/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "tests/runtime/data/files.h"

namespace sardonyx::runtime {
namespace {

using testing::error_of;
using Sizes = std::vector<int64_t>;

Sizes epoch_sizes(int64_t samples, int64_t batch, Tail tail) {
  Sampler sampler(samples, {batch, 7, SampleOrder::kShuffled, tail});
  Sizes sizes;
  for (;;) {
    Draw draw = sampler.next();
    EXPECT_EQ(draw.number, static_cast<int64_t>(sizes.size()));
    sizes.push_back(static_cast<int64_t>(draw.indices.size()));
    if (draw.last_of_epoch) break;
  }
  EXPECT_EQ(sampler.batches_per_epoch(), static_cast<int64_t>(sizes.size()));
  std::set<int64_t, std::greater<>> distinct(sizes.begin(), sizes.end());
  EXPECT_EQ(sampler.batch_sizes(), Sizes(distinct.begin(), distinct.end()));
  return sizes;
}

TEST(Sampler, the_tail_is_kept_dropped_or_joined) {
  EXPECT_EQ(epoch_sizes(10, 4, Tail::kKeep), (Sizes{4, 4, 2}));
  EXPECT_EQ(epoch_sizes(10, 4, Tail::kDrop), (Sizes{4, 4}));
  EXPECT_EQ(epoch_sizes(10, 4, Tail::kJoinSingle), (Sizes{4, 4, 2}));
  EXPECT_EQ(epoch_sizes(9, 4, Tail::kKeep), (Sizes{4, 4, 1}));
  EXPECT_EQ(epoch_sizes(9, 4, Tail::kJoinSingle), (Sizes{4, 5}));
  EXPECT_EQ(epoch_sizes(8, 4, Tail::kJoinSingle), (Sizes{4, 4}));
  EXPECT_EQ(epoch_sizes(3, 8, Tail::kKeep), (Sizes{3}));
  EXPECT_EQ(epoch_sizes(1, 4, Tail::kJoinSingle), (Sizes{1}));
  EXPECT_EQ(epoch_sizes(5, 4, Tail::kJoinSingle), (Sizes{5}));
}

TEST(Sampler, batches_of_one_are_not_joined_when_asked_for) {
  EXPECT_EQ(epoch_sizes(3, 1, Tail::kKeep), (Sizes{1, 1, 1}));
  EXPECT_EQ(epoch_sizes(3, 1, Tail::kJoinSingle), (Sizes{1, 1, 1}));
}

TEST(Sampler, every_sample_once_per_epoch_in_another_order) {
  std::vector<int64_t> all(1000);
  std::iota(all.begin(), all.end(), 0);
  std::vector<int64_t> first = epoch_order(1000, 3, 0, SampleOrder::kShuffled);
  std::vector<int64_t> second = epoch_order(1000, 3, 1, SampleOrder::kShuffled);
  EXPECT_NE(first, all);
  EXPECT_NE(first, second);
  EXPECT_NE(first, epoch_order(1000, 4, 0, SampleOrder::kShuffled));
  EXPECT_EQ(first, epoch_order(1000, 3, 0, SampleOrder::kShuffled));
  for (std::vector<int64_t> order : {first, second}) {
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, all);
  }
  EXPECT_EQ(epoch_order(1000, 3, 5, SampleOrder::kSequential), all);
}

// Saved runs resume with these orders: a change here breaks them.
TEST(Sampler, the_order_is_fixed_for_ever) {
  EXPECT_EQ(epoch_order(10, 0, 0, SampleOrder::kShuffled),
            (std::vector<int64_t>{8, 9, 3, 1, 0, 6, 4, 5, 7, 2}));
  EXPECT_EQ(epoch_order(10, 42, 3, SampleOrder::kShuffled),
            (std::vector<int64_t>{3, 4, 9, 0, 1, 2, 8, 7, 5, 6}));
}

// Each of the 24 orders of four samples about equally often.
TEST(Sampler, orders_are_uniform) {
  std::map<std::vector<int64_t>, int> counts;
  for (int64_t epoch = 0; epoch < 24000; ++epoch) {
    ++counts[epoch_order(4, 1, epoch, SampleOrder::kShuffled)];
  }
  EXPECT_EQ(counts.size(), 24u);
  for (const auto& [order, count] : counts) EXPECT_NEAR(count, 1000, 160);  // 5 sigma
}

TEST(Sampler, resumes_anywhere_with_the_same_batches) {
  SamplerOptions options{4, 9, SampleOrder::kShuffled, Tail::kKeep};
  Sampler whole(10, options);
  for (int step = 0; step < 9; ++step) {
    Draw draw = whole.next();
    Sampler resumed(10, options, draw.next);
    EXPECT_EQ(resumed.position(), whole.position());
    Sampler copy = whole;
    Draw expected = copy.next();
    Draw found = resumed.next();
    EXPECT_TRUE(std::ranges::equal(found.indices, expected.indices)) << step;
    EXPECT_EQ(found.epoch, expected.epoch);
    EXPECT_EQ(found.number, expected.number);
  }
}

TEST(Sampler, a_position_that_is_no_border_is_refused) {
  SamplerOptions options{4, 9, SampleOrder::kShuffled, Tail::kJoinSingle};
  std::string message = error_of([&] { Sampler(9, options, {2, 3}); });
  EXPECT_NE(message.find("cannot resume at sample 3 of epoch 2"), std::string::npos) << message;
  EXPECT_NE(error_of([&] { Sampler(9, options, {2, 8}); }), "no error");  // 4 + 5, no batch at 8
  EXPECT_NE(error_of([&] { Sampler(9, options, {-1, 0}); }), "no error");
  Sampler at_end(9, options, {2, 9});
  EXPECT_EQ(at_end.position(), (SamplerPosition{3, 0}));
}

TEST(Sampler, nothing_to_train_on_is_refused_with_the_numbers) {
  EXPECT_NE(error_of([] { Sampler(0, {4}); }).find("0 samples"), std::string::npos);
  EXPECT_EQ(error_of([] {
              Sampler(3, {8, 0, SampleOrder::kShuffled, Tail::kDrop});
            }),
            "3 samples are fewer than one batch of 8, and the tail is dropped: nothing would be "
            "trained. Use a smaller batch or keep the tail");
  EXPECT_NE(error_of([] { Sampler(3, {0}); }).find("a batch of 0"), std::string::npos);
}

}  // namespace
}  // namespace sardonyx::runtime
