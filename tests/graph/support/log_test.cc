#include "graph/support/log.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "graph/support/env.h"
#include "graph/support/error.h"

namespace sardonyx::support {
namespace {

class LogTest : public testing::Test {
 protected:
  void SetUp() override { set_level("notice"); }
  void TearDown() override {
    unsetenv("SARDONYX_LOG");
    reread_env();
  }
  static void set_level(const char* level) {
    setenv("SARDONYX_LOG", level, 1);
    reread_env();
  }

  // What one line of each level leaves in the sink.
  static std::string shown() {
    std::string out;
    const ScopedLogSink scope([&out](LogLevel level, std::string_view line) {
      out += std::to_string(static_cast<int>(level)) + std::string(line) + " ";
    });
    debug("d{}", 1);
    notice("n{}", 2);
    warning("w{}", 3);
    return out;
  }
};

TEST_F(LogTest, the_level_decides_what_is_shown) {
  EXPECT_EQ(shown(), "1n2 2w3 ");
  set_level("debug");
  EXPECT_EQ(shown(), "0d1 1n2 2w3 ");
  set_level("warning");
  EXPECT_EQ(shown(), "2w3 ");
  set_level("quiet");
  EXPECT_EQ(shown(), "");
}

TEST_F(LogTest, an_unknown_level_is_the_users_mistake) {
  set_level("loud");
  try {
    notice("x");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "the environment has SARDONYX_LOG=loud, expected debug, notice, warning or quiet");
  }
}

TEST_F(LogTest, lines_go_to_stderr_and_warnings_say_so) {
  testing::internal::CaptureStderr();
  notice("one {}", 1);
  warning("{}", "{braces}");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "one 1\nwarning: {braces}\n");
}

TEST_F(LogTest, scopes_nest) {
  std::string outer;
  std::string inner;
  const ScopedLogSink a([&](LogLevel, std::string_view line) { outer += line; });
  {
    const ScopedLogSink b([&](LogLevel, std::string_view line) { inner += line; });
    notice("in");
  }
  notice("out");
  EXPECT_EQ(outer, "out");
  EXPECT_EQ(inner, "in");
}

TEST_F(LogTest, threads_do_not_mix_lines) {
  std::vector<std::string> lines;
  const ScopedLogSink scope([&](LogLevel, std::string_view line) { lines.emplace_back(line); });
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 100; ++i) notice("line");
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(lines, std::vector<std::string>(400, "line"));
}

}  // namespace
}  // namespace sardonyx::support
