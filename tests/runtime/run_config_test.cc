// What a resumed run takes over from its checkpoint, may change, and may not.
#include "runtime/run_config.h"

#include <gtest/gtest.h>

#include "graph/support/error.h"
#include "tests/support/onnx_sketch.h"

namespace sardonyx::runtime {
namespace {

using sardonyx::testing::error_of;
using Lines = std::vector<std::string>;

Flags earlier() {
  Flags flags;
  flags.data = "fashion-mnist";
  flags.batch = 256;
  flags.lr = 0.1 + 0.2;
  flags.momentum = 0.9;
  flags.nesterov = true;
  flags.epochs = 10;
  flags.accumulate = 2;
  flags.freeze = {"conv*", "fc1.?"};
  flags.groups = {"fc[1,2];*:lr=0.1,wd=0", "back\\slash\\:wd=1", ";:lr=2"};
  flags.no_decay = {"norm", "bias"};
  flags.clip_norm = 0.25;
  flags.early_stop = 5;
  flags.on_nan = "skip:3";
  flags.seed = UINT64_MAX;
  flags.shuffle = false;
  flags.data_axes = ImageAxes::kHwc;
  flags.threads = 2;
  return flags;
}

Flags given(std::set<std::string> names) {
  Flags flags;
  flags.given = std::move(names);
  return flags;
}

TEST(RunConfig, what_is_not_given_is_as_it_was) {
  Flags flags;
  EXPECT_EQ(take_over(flags, run_config(earlier())), Lines());
  EXPECT_EQ(run_config(flags), run_config(earlier()));
  EXPECT_EQ(flags.lr, 0.1 + 0.2);
  EXPECT_EQ(flags.freeze, (Lines{"conv*", "fc1.?"}));
  EXPECT_EQ(flags.groups, earlier().groups);
  EXPECT_EQ(flags.no_decay, (Lines{"norm", "bias"}));
  EXPECT_EQ(flags.clip_norm, 0.25);
  EXPECT_EQ(flags.early_stop, 5);
  EXPECT_EQ(flags.on_nan, "skip:3");
  EXPECT_EQ(flags.seed, UINT64_MAX);
  EXPECT_FALSE(flags.shuffle);
  EXPECT_EQ(flags.data_axes, ImageAxes::kHwc);
  EXPECT_EQ(flags.epochs, 10);
  EXPECT_FALSE(flags.steps);
}

TEST(RunConfig, the_same_value_given_again_is_no_change) {
  Flags flags = given({"--lr", "--batch", "--no-shuffle"});
  flags.lr = 0.1 + 0.2;
  flags.batch = 256;
  flags.shuffle = false;
  EXPECT_EQ(take_over(flags, run_config(earlier())), Lines());
}

TEST(RunConfig, rates_and_lengths_may_change_with_a_line_that_names_both_values) {
  Flags flags = given({"--lr", "--epochs", "--schedule"});
  flags.lr = 0.05;
  flags.epochs = 20;
  flags.schedule = "cosine";
  EXPECT_EQ(take_over(flags, run_config(earlier())),
            (Lines{"--epochs is 20 now, 10 before", "--lr is 0.05 now, 0.30000000000000004 before",
                   "--schedule is cosine now, not set"}));
  EXPECT_EQ(flags.lr, 0.05);
  EXPECT_EQ(flags.momentum, 0.9);
}

TEST(RunConfig, one_of_two_flags_that_exclude_each_other_drives_out_the_old_one) {
  Flags flags = given({"--steps", "--micro-batch", "--clip-value"});
  flags.steps = 100;
  flags.clip_value = 2;
  flags.micro_batch = 64;
  EXPECT_EQ(take_over(flags, run_config(earlier())),
            (Lines{"--steps is 100 now, not set",
                   "--micro-batch is 64 now, not set: the steps are the same to rounding",
                   "--clip-value is 2 now, not set"}));
  EXPECT_FALSE(flags.clip_norm);
  EXPECT_FALSE(flags.epochs);
  EXPECT_FALSE(flags.accumulate);
}

TEST(RunConfig, all_that_can_not_change_is_listed_at_once) {
  Flags flags = given({"--batch", "--seed", "--shuffle", "--lr"});
  flags.batch = 128;
  flags.seed = 1;
  EXPECT_EQ(error_of([&] { take_over(flags, run_config(earlier())); }),
            "this can't change inside a run:\n  --shuffle is true now, false before\n  --batch is "
            "128 now, 256 before\n  --seed is 1 now, 18446744073709551615 before\n  leave the "
            "flag out to go on as before, or begin another run in another folder");
}

TEST(RunConfig, settings_of_later_versions_and_broken_values_are_refused) {
  Flags flags;
  EXPECT_EQ(error_of([&] {
              take_over(flags, {{"--warp", "9"}});
            }),
            "the setting --warp 9 of the run is not known here: was it made by a later version?");
  EXPECT_EQ(error_of([&] {
              take_over(flags, {{"--lr", "fast"}});
            }),
            "the setting --lr of the run has the value 'fast', which it can't have");
  EXPECT_THROW(take_over(flags, {{"--shuffle", "maybe"}}), Error);
  EXPECT_THROW(take_over(flags, {{"--batch", "1e3"}}), Error);
}

}  // namespace
}  // namespace sardonyx::runtime
