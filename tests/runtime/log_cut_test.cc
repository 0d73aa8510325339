// The log of a resumed run: each step once, whatever the earlier process had still written.
#include "runtime/log_cut.h"

#include <gtest/gtest.h>

#include <fstream>

#include "graph/support/error.h"
#include "graph/support/log.h"
#include "tests/support/onnx_sketch.h"
#include "tests/support/shared_data.h"

namespace sardonyx::runtime {
namespace {

using sardonyx::testing::error_of;
using sardonyx::testing::read_file;

std::string step(int64_t number) {
  StepRecord record;
  record.step = number;
  record.loss = 1.0 / static_cast<double>(number);
  return to_json(record) + "\n";
}

std::string epoch(int64_t number, int64_t at) {
  EpochRecord record;
  record.epoch = number;
  record.step = at;
  record.test_accuracy = 0.5;
  return to_json(record) + "\n";
}

RunState state(int64_t steps, int64_t position = 0) {
  RunState run;
  run.step = steps;
  run.position.position = position;
  return run;
}

class LogCut : public ::testing::Test {
 protected:
  // What is left of `before`; three steps make an epoch.
  std::string cut(const std::string& before, const RunState& run) {
    std::ofstream(path_, std::ios::binary) << before;
    const support::ScopedLogSink sink(
        [&](support::LogLevel, std::string_view line) { notices_.emplace_back(line); });
    records_ = cut_log(path_, run, 3);
    return read_file(path_);
  }
  const sardonyx::testing::TemporaryFolder folder_;
  const std::string path_ = (folder_.path() / "run.jsonl").string();
  LogRecords records_;
  std::vector<std::string> notices_;
};

TEST_F(LogCut, steps_behind_the_checkpoint_go) {
  const std::string kept = step(1) + step(2) + step(3) + epoch(1, 3) + step(4);
  EXPECT_EQ(cut(kept + step(5) + step(6) + epoch(2, 6), state(4, 32)), kept);
  ASSERT_EQ(records_.steps.size(), 4u);
  EXPECT_EQ(records_.steps[3].epoch, 2);
  EXPECT_EQ(records_.steps[3].step_in_epoch, 1);
  EXPECT_EQ(records_.steps[3].loss, 0.25);
  ASSERT_EQ(records_.epochs.size(), 1u);
  EXPECT_EQ(records_.epochs[0].test_accuracy, 0.5);
  EXPECT_FALSE(records_.epochs[0].test_loss);
  EXPECT_TRUE(notices_.empty());
}

TEST_F(LogCut, an_epoch_that_ends_with_the_checkpoint_stays) {
  const std::string all = step(1) + step(2) + step(3) + epoch(1, 3);
  EXPECT_EQ(cut(all, state(3)), all);
}

TEST_F(LogCut, the_part_of_an_epoch_and_the_end_of_a_run_that_goes_on_go) {
  RunSummary summary;
  const std::string kept = step(1) + step(2);
  EXPECT_EQ(cut(kept + epoch(1, 2) + to_json(summary) + "\n", state(2, 64)), kept);
  EXPECT_EQ(cut(kept + step(3) + epoch(1, 3) + to_json(summary) + "\n", state(3)),
            kept + step(3) + epoch(1, 3));
}

TEST_F(LogCut, a_torn_last_line_goes) {
  const std::string kept = step(1) + step(2);
  EXPECT_EQ(cut(kept + "{\"step\":3,\"lo", state(3, 96)), kept);
  EXPECT_EQ(notices_, std::vector<std::string>{"--log " + path_ +
                                               " ends at step 2, the run goes on behind step 3"});
}

TEST_F(LogCut, a_file_that_is_not_there_is_noticed) {
  const support::ScopedLogSink sink(
      [&](support::LogLevel, std::string_view line) { notices_.emplace_back(line); });
  EXPECT_TRUE(cut_log(path_, state(3), 3).steps.empty());
  EXPECT_EQ(notices_,
            std::vector<std::string>{"--log " + path_ + " is not there, it begins behind step 3"});
}

TEST_F(LogCut, another_file_is_refused_and_stays) {
  for (const std::string text :
       {"notes\n", "{\"a\":1}\n", "{\"step\":\"x\"}\n", "[1]\n", "{\"step\":1,\"epoch\":\"x\"}\n",
        "\n",
        // What no log holds, under keys that a log has.
        "{\"step\":-1}\n", "{\"step\":9223372036854775808}\n", "{\"step\":1,\"skipped\":1}\n",
        "{\"step\":1,\"epoch\":-9223372036854775808}\n",
        "{\"step\":1,\"epoch\":1,\"best\":\"x\"}\n",
        "{\"step\":1,\"epoch\":1,\"skipped_steps\":\"x\"}\n"}) {
    EXPECT_EQ(error_of([&] { cut(step(1) + text, state(3)); }),
              fmt::format("--log {}: byte {} begins no line of a log; choose another file", path_,
                          step(1).size()));
    EXPECT_EQ(read_file(path_), step(1) + text);
  }
}

}  // namespace
}  // namespace sardonyx::runtime
