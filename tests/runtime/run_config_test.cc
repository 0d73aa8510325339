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
                   "--micro-batch is 64 now, not set: the steps are the same to rounding, "
                   "statistics of BatchNormalization apart",
                   "--clip-value is 2 now, not set"}));
  EXPECT_FALSE(flags.clip_norm);
  EXPECT_FALSE(flags.epochs);
  EXPECT_FALSE(flags.accumulate);
}

// A run on two replicas, with all that depends on their number.
Flags on_two() {
  Flags flags = earlier();
  flags.replicas = 2;
  flags.shares = {"3", "1"};
  flags.lr_scaling = "linear";
  flags.base_batch = 64;
  return flags;
}

TEST(RunConfig, shares_and_threads_fall_with_the_replicas_that_they_were_for) {
  Flags one = given({"--replicas"});
  EXPECT_EQ(take_over(one, run_config(on_two())),
            (Lines{"--replicas is 1 now, 2 before: the steps are the same to rounding, statistics "
                   "of BatchNormalization apart",
                   "--shares 3,1 falls away: it was for another number of replicas"}));
  EXPECT_EQ(one.shares, Lines());
  EXPECT_EQ(one.threads, 2);

  Flags four = given({"--devices"});
  four.devices = {"cpu", "cpu", "cpu", "cpu"};
  EXPECT_EQ(take_over(four, run_config(on_two())),
            (Lines{"--devices is cpu,cpu,cpu,cpu now, not set: the steps are the same to rounding, "
                   "statistics of BatchNormalization apart",
                   "--shares 3,1 falls away: it was for another number of replicas",
                   "--threads 2 falls away: every replica needs one"}));
  EXPECT_EQ(four.shares, Lines());
  EXPECT_EQ(four.threads, 0);
  EXPECT_NO_THROW(session_options(four));
  EXPECT_NO_THROW(batch_setup(four, -1));
}

TEST(RunConfig, shares_stay_with_as_many_replicas_under_another_name) {
  Flags flags = given({"--devices"});
  flags.devices = {"cpu", "cpu"};
  EXPECT_EQ(take_over(flags, run_config(on_two())),
            Lines{"--devices is cpu,cpu now, not set: the steps are the same to rounding, "
                  "statistics of BatchNormalization apart"});
  EXPECT_EQ(flags.shares, (Lines{"3", "1"}));
  EXPECT_EQ(flags.threads, 2);
}

TEST(RunConfig, what_is_typed_never_falls) {
  Flags flags = given({"--replicas", "--threads", "--shares"});
  flags.replicas = 3;
  flags.threads = 2;
  flags.shares = {"1", "1"};
  take_over(flags, run_config(on_two()));
  EXPECT_EQ(flags.shares.size(), 2u);
  EXPECT_EQ(error_of([&] { session_options(flags); }),
            "--threads 2: 3 replicas need at least one each");
}

TEST(RunConfig, other_values_fall_with_the_flag_that_they_went_with) {
  Flags scaling = given({"--lr-scaling"});
  EXPECT_EQ(take_over(scaling, run_config(on_two())),
            (Lines{"--lr-scaling is not set now, linear before",
                   "--base-batch 64 falls away: there is no --lr-scaling any more"}));
  EXPECT_EQ(base_lr(scaling, 256), 0.1 + 0.2);

  Flags dampened = given({"--dampening"});
  dampened.dampening = 0.5;
  EXPECT_EQ(take_over(dampened, run_config(earlier())),
            (Lines{"--dampening is 0.5 now, 0 before",
                   "--nesterov true falls away: it doesn't go with --dampening"}));
  EXPECT_FALSE(dampened.nesterov);

  Flags unjudged = given({"--eval-every"});
  unjudged.eval_every = 0;
  EXPECT_EQ(take_over(unjudged, run_config(earlier())),
            (Lines{"--eval-every is 0 now, 1 before",
                   "--early-stop 5 falls away: there are no evaluations any more"}));
  EXPECT_EQ(unjudged.early_stop, 0);
}

TEST(RunConfig, what_was_on_can_be_switched_off) {
  Flags before = earlier();
  before.augment = "crop:4";
  before.warmup = "5epochs";
  Flags flags = given({"--clip-norm", "--early-stop", "--warmup", "--augment", "--group",
                       "--no-decay", "--nesterov"});
  flags.warmup = "0";
  flags.augment = "none";
  flags.groups = flags.no_decay = {"none"};
  const std::vector<std::string> lines = take_over(flags, run_config(before));
  EXPECT_EQ(lines.size(), 7u);
  EXPECT_EQ(lines[0], "--augment is not set now, crop:4 before");
  const RunConfig left = run_config(flags);
  for (const auto& [flag, value] : left) {
    EXPECT_FALSE(flags.given.contains(flag) && flag != "--nesterov") << flag << " " << value;
  }
  EXPECT_FALSE(flags.nesterov);
  // Off before and off now.
  Flags again = flags;
  EXPECT_EQ(take_over(again, left), Lines());
}

TEST(RunConfig, off_does_not_drive_out_the_other_one_of_two) {
  Flags before = earlier();
  before.clip_norm = 0;
  before.clip_value = 2;
  Flags flags = given({"--clip-norm"});
  EXPECT_EQ(take_over(flags, run_config(before)), Lines());
  EXPECT_EQ(flags.clip_value, 2);
}

TEST(RunConfig, momentum_and_averages_may_change_but_not_come_or_go) {
  Flags before = earlier();
  before.ema = 0.9;
  Flags other = given({"--momentum", "--ema"});
  other.momentum = 0.5;
  other.ema = 0.99;
  EXPECT_EQ(take_over(other, run_config(before)),
            (Lines{"--momentum is 0.5 now, 0.9 before", "--ema is 0.99 now, 0.9 before"}));
  const std::string rest =
      "\n  leave the flag out to go on as before, or begin another run in another folder";
  Flags off = given({"--momentum", "--ema"});
  EXPECT_EQ(error_of([&] { take_over(off, run_config(before)); }),
            "this can't change inside a run:\n  --momentum is not set now, 0.9 before\n  --ema is "
            "not set now, 0.9 before" +
                rest);
  before.momentum = before.ema = 0;
  before.nesterov = false;
  Flags on = given({"--momentum"});
  on.momentum = 0.9;
  EXPECT_EQ(error_of([&] { take_over(on, run_config(before)); }),
            "this can't change inside a run:\n  --momentum is 0.9 now, not set" + rest);
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

TEST(RunConfig, what_other_devices_can_not_take_falls_away) {
  Flags before = earlier();
  before.devices = {"cuda:0"};
  before.fallback = "cpu";
  Flags flags = given({"--devices"});
  flags.devices = {"cpu"};
  const Lines lines = take_over(flags, run_config(before));
  EXPECT_EQ(lines.back(), "--fallback cpu falls away: there is no CUDA device any more");
  EXPECT_EQ(flags.fallback, "");
  before = earlier();
  before.tune = true;
  flags = given({"--devices"});
  flags.devices = {"cuda:0"};
  EXPECT_EQ(take_over(flags, run_config(before)).back(),
            "--tune true falls away: it measures kernels of the CPU");
  EXPECT_FALSE(flags.tune);
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
