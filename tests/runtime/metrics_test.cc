#include "runtime/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "graph/support/error.h"
#include "graph/support/log.h"
#include "tests/support/shared_data.h"

namespace sardonyx::runtime {
namespace {

using Json = nlohmann::json;

EpochRecord full_epoch() {
  EpochRecord record;
  record.epoch = 1;
  record.step = 235;
  record.lr = 0.2;
  record.train_loss = 0.75;
  record.train_accuracy = 0.5;
  record.test_loss = 0.625;
  record.test_accuracy = 0.25;
  record.images_per_s = 1000;
  record.seconds = 60;
  return record;
}

TEST(Metrics, epoch_line_has_the_promised_keys_in_order) {
  EXPECT_EQ(to_json(full_epoch()),
            R"({"epoch":1,"step":235,"lr":0.2,"train_loss":0.75,"train_accuracy":0.5,)"
            R"("test_loss":0.625,"test_accuracy":0.25,"images_per_s":1000.0,"seconds":60.0})");
}

TEST(Metrics, unknown_and_non_finite_numbers_are_null) {
  EpochRecord record = full_epoch();
  record.test_accuracy.reset();
  record.train_loss = std::numeric_limits<double>::quiet_NaN();
  const Json json = Json::parse(to_json(record));
  EXPECT_TRUE(json["test_accuracy"].is_null());
  EXPECT_TRUE(json["train_loss"].is_null());
}

TEST(Metrics, keys_of_skips_and_of_the_best_epoch_are_there_when_there_is_something_to_say) {
  EpochRecord epoch = full_epoch();
  EXPECT_FALSE(Json::parse(to_json(epoch)).contains("best"));
  epoch.best = true;
  epoch.skipped_steps = 2;
  EXPECT_EQ(Json::parse(to_json(epoch))["best"], true);
  EXPECT_EQ(Json::parse(to_json(epoch))["skipped_steps"], 2);
  StepRecord step;
  EXPECT_FALSE(Json::parse(to_json(step)).contains("skipped"));
  step.skipped = true;
  EXPECT_EQ(Json::parse(to_json(step))["skipped"], true);
  RunSummary summary;
  summary.skipped_steps = 3;
  summary.best_epoch = 4;
  summary.saved_best = "best.onnx";
  const Json json = Json::parse(to_json(summary));
  EXPECT_EQ(json["skipped_steps"], 3);
  EXPECT_EQ(json["best_epoch"], 4);
  EXPECT_EQ(json["saved_best"], "best.onnx");
}

TEST(Metrics, numbers_read_back_to_the_same_bits) {
  StepRecord record;
  record.step = 7;
  record.loss = 0.1 + 0.2;
  record.lr = 1.0 / 3.0;
  record.grad_norm = 5e-324;
  record.images_per_s = 123456.789;
  const Json json = Json::parse(to_json(record));
  EXPECT_EQ(json["step"], 7);
  EXPECT_EQ(json["loss"].get<double>(), 0.1 + 0.2);
  EXPECT_EQ(json["lr"].get<double>(), 1.0 / 3.0);
  EXPECT_EQ(json["grad_norm"].get<double>(), 5e-324);
  EXPECT_EQ(json["images_per_s"].get<double>(), 123456.789);
}

TEST(Metrics, summary_says_what_was_saved_and_why_it_stopped) {
  RunSummary summary;
  summary.devices = {"cpu"};
  summary.peak_bytes = 80;
  summary.planned_bytes = 70;
  summary.saved = "out.onnx";
  EXPECT_EQ(to_json(summary),
            R"({"done":true,"step":0,"best_test_accuracy":null,"seconds_per_epoch":0.0,)"
            R"("devices":["cpu"],"peak_bytes":80,"planned_bytes":70,"saved":"out.onnx"})");
  summary.done = false;
  summary.stopped = "SIGINT";
  summary.saved.clear();
  const Json json = Json::parse(to_json(summary));
  EXPECT_EQ(json["done"], false);
  EXPECT_EQ(json["stopped"], "SIGINT");
  EXPECT_TRUE(json["saved"].is_null());
}

TEST(Metrics, log_file_holds_steps_epochs_and_the_summary) {
  const sardonyx::testing::TemporaryFolder folder;
  const auto path = folder.path() / "run.jsonl";
  {
    LogFile log(path.string());
    log.step({});
    log.epoch(full_epoch());
    log.end({});
  }
  std::string text = sardonyx::testing::read_file(path);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
  EXPECT_EQ(text.substr(0, 9), R"({"step":0)");
}

TEST(Metrics, a_log_that_cannot_be_written_is_an_error) {
  try {
    const LogFile log("/nonexistent/run.jsonl");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "can't write to --log /nonexistent/run.jsonl: No such file or directory");
  }
}

TEST(Metrics, a_log_on_a_full_disk_warns_once_and_the_run_goes_on) {
  std::vector<std::string> lines;
  const support::ScopedLogSink sink(
      [&](support::LogLevel, std::string_view line) { lines.emplace_back(line); });
  LogFile full("/dev/full");
  full.step({});
  full.step({});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0],
            "can't write to --log /dev/full: No space left on device; the log ends here, the run "
            "goes on");
  JsonLines out(std::fopen("/dev/full", "w"));
  out.epoch({});
  out.end({});
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1],
            "can't write to standard output: No space left on device; the log ends here, the run "
            "goes on");
}

TEST(Metrics, peak_rss_is_that_of_this_process) {
  EXPECT_GT(peak_rss_bytes(), size_t{1} << 20);
  EXPECT_LT(peak_rss_bytes(), size_t{1} << 36);
}

}  // namespace
}  // namespace sardonyx::runtime
