#include "graph/support/env.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "graph/support/error.h"

namespace sardonyx::support {
namespace {

// Sets SARDONYX_LOG while it lives.
class LogVariable {
 public:
  explicit LogVariable(const char* value) {
    const char* old = std::getenv("SARDONYX_LOG");
    had_ = old != nullptr;
    if (had_) old_ = old;
    value != nullptr ? setenv("SARDONYX_LOG", value, 1) : unsetenv("SARDONYX_LOG");
    reread_env();
  }
  ~LogVariable() {
    had_ ? setenv("SARDONYX_LOG", old_.c_str(), 1) : unsetenv("SARDONYX_LOG");
    reread_env();
  }

 private:
  bool had_ = false;
  std::string old_;
};

const EnvSwitch& log_switch() {
  for (const EnvSwitch& entry : env_switches()) {
    if (entry.name == "SARDONYX_LOG") return entry;
  }
  throw Error("not listed");
}

TEST(Env, switches_are_listed_with_default_and_help) {
  std::set<std::string> names;
  for (const EnvSwitch& entry : env_switches()) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name << " stands twice in env.def";
    const bool standard = entry.name == "HOME" || entry.name == "XDG_CACHE_HOME";
    EXPECT_TRUE(standard || entry.name.starts_with("SARDONYX_")) << entry.name;
    EXPECT_FALSE(entry.help.empty());
  }
}

TEST(Env, an_unset_or_empty_variable_gives_the_default) {
  for (const char* value : {static_cast<const char*>(nullptr), ""}) {
    const LogVariable variable(value);
    EXPECT_EQ(env("SARDONYX_LOG"), "notice");
    EXPECT_FALSE(log_switch().is_set);
  }
}

TEST(Env, the_environment_is_read_once) {
  const LogVariable variable("quiet");
  EXPECT_EQ(env("SARDONYX_LOG"), "quiet");
  EXPECT_TRUE(log_switch().is_set);
  setenv("SARDONYX_LOG", "debug", 1);
  EXPECT_EQ(env("SARDONYX_LOG"), "quiet");
}

TEST(Env, a_name_outside_the_table_is_a_broken_invariant) {
  EXPECT_THROW(env("SARDONYX_NO_SUCH_SWITCH"), InternalError);
}

TEST(Env, numbers_are_checked) {
  {
    const LogVariable variable("12");
    EXPECT_EQ(env_int("SARDONYX_LOG", 1, 12), 12);
    EXPECT_THROW(env_int("SARDONYX_LOG", 1, 11), Error);
  }
  const LogVariable variable("12x");
  try {
    env_int("SARDONYX_LOG", 0, 99);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "the environment has SARDONYX_LOG=12x, expected a number from 0 to 99");
  }
}

}  // namespace
}  // namespace sardonyx::support
