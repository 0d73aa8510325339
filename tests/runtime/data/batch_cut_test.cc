// The cut of a global batch, as the semantics page states it.
#include "runtime/data/batch_cut.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/runtime/data/files.h"

namespace sardonyx::runtime {
namespace {

using testing::error_of;
using Cut = BatchCut;

TEST(BatchCut, larger_parts_come_first) {
  EXPECT_EQ(cut_batch(8, {1}), (Cut{{8}}));
  EXPECT_EQ(cut_batch(8, {3}), (Cut{{3}, {3}, {2}}));
  EXPECT_EQ(cut_batch(10, {1, 3}), (Cut{{4, 3, 3}}));
  EXPECT_EQ(cut_batch(10, {4, 2}), (Cut{{2, 1}, {2, 1}, {1, 1}, {1, 1}}));
  EXPECT_EQ(cut_batch(7, {2, 2}), (Cut{{2, 2}, {2, 1}}));
}

TEST(BatchCut, micro_batches_stay_at_or_below_the_limit_and_even) {
  EXPECT_EQ(cut_batch(10, {1, {}, 4}), (Cut{{4, 3, 3}}));
  EXPECT_EQ(cut_batch(8, {1, {}, 4}), (Cut{{4, 4}}));
  EXPECT_EQ(cut_batch(9, {2, {}, 4}), (Cut{{3, 2}, {4}}));
  EXPECT_EQ(cut_batch(3, {1, {}, 64}), (Cut{{3}}));
}

TEST(BatchCut, huge_shares_are_shares_too) {
  EXPECT_EQ(cut_batch(32, {.replicas = 2, .shares = {1e308, 1}}), (BatchCut{{32}, {}}));
  EXPECT_EQ(cut_batch(32, {.replicas = 2, .shares = {3e307, 1e307}}), (BatchCut{{24}, {8}}));
}

TEST(BatchCut, a_baked_batch_is_the_size_of_every_piece) {
  EXPECT_EQ(cut_batch(24, {.replicas = 2, .baked = 8}), (BatchCut{{8, 8}, {8}}));
  EXPECT_EQ(cut_batch(8, {.replicas = 2, .baked = 8}), (BatchCut{{8}, {}}));
  EXPECT_EQ(cut_batch(32, {.replicas = 2, .shares = {3, 1}, .baked = 8}),
            (BatchCut{{8, 8, 8}, {8}}));
  // No multiple: cut as usual, so that the error can say what doesn't fit.
  EXPECT_EQ(cut_batch(20, {.replicas = 2, .baked = 8}), (BatchCut{{10}, {10}}));
}

TEST(BatchCut, shares_set_the_parts_of_the_replicas) {
  EXPECT_EQ(cut_batch(8, {2, {}, {}, {3, 1}}), (Cut{{6}, {2}}));
  EXPECT_EQ(cut_batch(10, {2, {}, {}, {3, 1}}), (Cut{{8}, {2}}));
  EXPECT_EQ(cut_batch(10, {2, {}, 3, {3, 1}}), (Cut{{3, 3, 2}, {2}}));
  EXPECT_EQ(cut_batch(10, {2, 2, {}, {1, 0}}), (Cut{{5, 5}, {}}));
  EXPECT_EQ(cut_batch(10, {2, {}, {}, {0, 1}}), (Cut{{}, {10}}));
  EXPECT_EQ(cut_batch(10, {3, {}, {}, {0.5, 0.25, 0.25}}), (Cut{{5}, {3}, {2}}));
}

TEST(BatchCut, replicas_without_samples_have_no_micro_batch) {
  EXPECT_EQ(cut_batch(3, {4}), (Cut{{1}, {1}, {1}, {}}));
  EXPECT_EQ(cut_batch(1, {3, 4}), (Cut{{1}, {}, {}}));
  EXPECT_EQ(cut_batch(3, {2, 4}), (Cut{{1, 1}, {1}}));
}

TEST(BatchCut, a_single_sample_joins_the_micro_batch_before_it) {
  EXPECT_EQ(cut_batch(5, {1, {}, 4, {}, 0, Singles::kJoin}), (Cut{{3, 2}}));
  EXPECT_EQ(cut_batch(3, {1, 2, {}, {}, 0, Singles::kJoin}), (Cut{{3}}));
  EXPECT_EQ(cut_batch(5, {2, 2, {}, {}, 0, Singles::kJoin}), (Cut{{3}, {2}}));
  EXPECT_EQ(cut_batch(4, {1, 4, {}, {}, 0, Singles::kJoin}), (Cut{{2, 2}}));
  EXPECT_EQ(cut_batch(5, {1, {}, 1, {}, 0, Singles::kJoin}), (Cut{{2, 3}}));
  EXPECT_EQ(cut_batch(5, {4, {}, {}, {}, 0, Singles::kJoin}), (Cut{{2}, {3}, {}, {}}));
  EXPECT_EQ(cut_batch(4, {4, {}, {}, {}, 0, Singles::kJoin}), (Cut{{2}, {}, {2}, {}}));
  EXPECT_EQ(cut_batch(3, {2, {}, {}, {}, 0, Singles::kJoin}), (Cut{{3}, {}}));
  EXPECT_EQ(cut_batch(1, {2, {}, {}, {}, 0, Singles::kJoin}), (Cut{{1}, {}}));
  EXPECT_EQ(cut_batch(4, {2, {}, {}, {1, 3}, 0, Singles::kJoin}), (Cut{{1}, {3}}));
}

TEST(BatchCut, all_parts_differ_by_at_most_one_and_add_up) {
  for (int64_t batch = 1; batch <= 40; ++batch) {
    for (int64_t replicas = 1; replicas <= 5; ++replicas) {
      for (int64_t accumulate = 1; accumulate <= 5; ++accumulate) {
        Cut cut = cut_batch(batch, {replicas, accumulate});
        int64_t total = 0, least = batch, most = 0, before = batch;
        for (const std::vector<int64_t>& sizes : cut) {
          int64_t part = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
          EXPECT_LE(part, before);
          before = part;
          total += part;
          for (int64_t size : sizes) {
            least = std::min(least, size);
            most = std::max(most, size);
          }
        }
        EXPECT_EQ(total, batch);
        EXPECT_LE(most - least, 1);
        EXPECT_GE(least, 1);
      }
    }
  }
}

TEST(BatchCut, numbers_without_sense_are_refused) {
  EXPECT_EQ(error_of([] { cut_batch(8, {1, {}, 0}); }), "a micro-batch of 0: expected at least 1");
  EXPECT_NE(error_of([] { cut_batch(0, {1}); }), "no error");
  EXPECT_NE(error_of([] { cut_batch(8, {0}); }), "no error");
  EXPECT_NE(error_of([] { cut_batch(8, {1, -1}); }), "no error");
  EXPECT_NE(error_of([] { cut_batch(8, {1, 2, 4}); }), "no error");
  EXPECT_EQ(error_of([] {
              cut_batch(8, {3, {}, {}, {1, 1}});
            }),
            "--shares has 2 numbers for 3 replicas");
  EXPECT_NE(error_of([] { cut_batch(8, {2, {}, {}, {0, 0}}); }), "no error");
  EXPECT_NE(error_of([] { cut_batch(8, {2, {}, {}, {-1, 2}}); }), "no error");
}

TEST(BatchCut, the_global_batch_follows_from_the_flags) {
  EXPECT_EQ(resolve_batch({.batch = 10}).batch, 10);
  EXPECT_EQ(resolve_batch({.micro_batch = 2, .replicas = 4}).batch, 8);
  EXPECT_EQ(resolve_batch({.micro_batch = 2, .accumulate = 3, .replicas = 4}).batch, 24);
  BatchSetup consistent = resolve_batch({8, 2, 2, 2, {}});
  EXPECT_EQ(cut_batch(consistent.batch, consistent.cut), (Cut{{2, 2}, {2, 2}}));
  BatchSetup limited = resolve_batch({.batch = 10, .micro_batch = 4});
  EXPECT_EQ(cut_batch(limited.batch, limited.cut), (Cut{{4, 3, 3}}));
}

TEST(BatchCut, contradicting_flags_are_refused_with_all_numbers) {
  EXPECT_EQ(error_of([] {
              resolve_batch({10, 4, 1, 2, {}});
            }),
            "global batch 10 contradicts micro-batch 4 x replicas 2 x accumulation 1 = 8; give two "
            "of batch, micro-batch and accumulation");
  EXPECT_EQ(error_of([] { resolve_batch({.micro_batch = 0}); }),
            "a micro-batch of 0: expected at least 1");
  EXPECT_NE(error_of([] {
              resolve_batch({.micro_batch = int64_t{1} << 62, .replicas = 4});
            }).find("too large"),
            std::string::npos);
}

}  // namespace
}  // namespace sardonyx::runtime
