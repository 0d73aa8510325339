#include "runtime/lr_schedule.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "graph/support/error.h"
#include "tests/support/paths.h"

namespace sardonyx::runtime {
namespace {

LrSchedule schedule(const std::string& text, const std::string& warmup = "") {
  LrSchedule result = LrSchedule::parse(text, warmup);
  result.set_length(10, 100);
  return result;
}

std::string error_of(const std::string& text, const std::string& warmup = "") {
  try {
    LrSchedule::parse(text, warmup);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(LrSchedule, nothing_given_is_constant) {
  EXPECT_DOUBLE_EQ(schedule("").rate(0.3, 0), 0.3);
  EXPECT_DOUBLE_EQ(schedule("constant").rate(0.3, 1000000), 0.3);
}

TEST(LrSchedule, step_drops_every_so_many_epochs) {
  const LrSchedule s = schedule("step:2,0.5");
  EXPECT_DOUBLE_EQ(s.rate(1.0, 19), 1.0);
  EXPECT_DOUBLE_EQ(s.rate(1.0, 20), 0.5);
  EXPECT_DOUBLE_EQ(s.rate(1.0, 39), 0.5);
  EXPECT_DOUBLE_EQ(s.rate(1.0, 40), 0.25);
}

TEST(LrSchedule, times_may_be_steps_or_parts_of_epochs) {
  const LrSchedule s = schedule("multistep:15steps,2.5,0.1");
  EXPECT_DOUBLE_EQ(s.rate(1.0, 14), 1.0);
  EXPECT_DOUBLE_EQ(s.rate(1.0, 15), 0.1);
  EXPECT_DOUBLE_EQ(s.rate(1.0, 24), 0.1);
  EXPECT_NEAR(s.rate(1.0, 25), 0.01, 1e-15);
}

TEST(LrSchedule, exponential_falls_once_an_epoch) {
  const LrSchedule s = schedule("exponential:0.9");
  EXPECT_DOUBLE_EQ(s.rate(1.0, 9), 1.0);
  EXPECT_DOUBLE_EQ(s.rate(1.0, 10), 0.9);
  EXPECT_NEAR(s.rate(1.0, 99), 0.387420489, 1e-12);  // 0.9^9
}

TEST(LrSchedule, cosine_goes_from_base_to_minimum) {
  const LrSchedule s = schedule("cosine:0.02");
  EXPECT_DOUBLE_EQ(s.rate(0.2, 0), 0.2);
  EXPECT_NEAR(s.rate(0.2, 50), 0.11, 1e-15);
  EXPECT_NEAR(s.rate(0.2, 100), 0.02, 1e-15);
  EXPECT_NEAR(s.rate(0.2, 5000), 0.02, 1e-15);
}

TEST(LrSchedule, warmup_is_linear_and_reaches_the_base_with_its_last_step) {
  const LrSchedule s = schedule("", "4steps");
  EXPECT_DOUBLE_EQ(s.rate(0.8, 0), 0.2);
  EXPECT_DOUBLE_EQ(s.rate(0.8, 1), 0.4);
  EXPECT_DOUBLE_EQ(s.rate(0.8, 3), 0.8);
  EXPECT_DOUBLE_EQ(s.rate(0.8, 4), 0.8);
  EXPECT_DOUBLE_EQ(schedule("", "4").rate(0.8, 0), 0.2);  // a bare number: steps
}

TEST(LrSchedule, cosine_begins_behind_the_warmup) {
  const LrSchedule s = schedule("cosine", "2epochs");
  EXPECT_DOUBLE_EQ(s.rate(1.0, 0), 0.05);
  EXPECT_DOUBLE_EQ(s.rate(1.0, 19), 1.0);
  EXPECT_DOUBLE_EQ(s.rate(1.0, 20), 1.0);
  EXPECT_NEAR(s.rate(1.0, 60), 0.5, 1e-15);
}

TEST(LrSchedule, warmup_moves_no_milestone) {
  const LrSchedule s = schedule("multistep:2,0.1", "10");
  EXPECT_DOUBLE_EQ(s.rate(1.0, 19), 1.0);
  EXPECT_DOUBLE_EQ(s.rate(1.0, 20), 0.1);
}

// tests/peers/torch_schedules.py wrote the numbers: 6 epochs of 5 steps.
TEST(LrSchedule, every_step_has_the_rate_of_pytorchs_scheduler) {
  std::ifstream file(tests::source_folder() / "tests/runtime/torch_schedules.jsonl");
  int runs = 0;
  for (std::string line; std::getline(file, line); ++runs) {
    const auto run = nlohmann::json::parse(line);
    LrSchedule s = LrSchedule::parse(run.at("schedule"), run.value("warmup", ""));
    s.set_length(5, 30);
    const std::vector<double> rates = run.at("rates");
    ASSERT_EQ(rates.size(), 30u);
    for (int64_t step = 0; step < 30; ++step) {
      EXPECT_NEAR(s.rate(0.2, step), rates[step], 1e-15) << line.substr(0, 60) << ": " << step;
    }
  }
  EXPECT_EQ(runs, 9);
}

TEST(LrSchedule, wrong_texts_name_the_flag_and_what_is_known) {
  EXPECT_EQ(error_of("cosin"),
            "--schedule 'cosin' is not known (did you mean cosine?); known: constant, "
            "step:EVERY,GAMMA, multistep:T1,T2,...,GAMMA, exponential:GAMMA, cosine[:MIN]");
  EXPECT_EQ(error_of("step:30,0"),
            "--schedule 'step:30,0': '0' is no factor; expected a number above 0");
  EXPECT_EQ(error_of("step:30"),
            "--schedule 'step:30': wrong number of values; known: constant, step:EVERY,GAMMA, "
            "multistep:T1,T2,...,GAMMA, exponential:GAMMA, cosine[:MIN]");
  EXPECT_EQ(error_of("step:-1,0.5"),
            "--schedule '-1': expected a positive number of steps or epochs, such as 500steps or "
            "5epochs");
  EXPECT_EQ(error_of("", "soon"),
            "--warmup 'soon': expected a positive number of steps or epochs, such as 500steps or "
            "5epochs");
  EXPECT_EQ(error_of("", "2.5steps").substr(0, 19), "--warmup '2.5steps'");
}

}  // namespace
}  // namespace sardonyx::runtime
