// Environment switches. All of them stand in env.def; nothing else calls getenv, so that `sardonyx
// env` is complete. They are read once, at the first question: a later setenv changes nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sardonyx::support {

struct EnvSwitch {
  std::string name;
  std::string fallback;  // the value when the environment has none
  std::string help;
  std::string value;    // in effect
  bool is_set = false;  // by the environment
};

// In the order of env.def.
const std::vector<EnvSwitch>& env_switches();
// The value in effect. CHECK: `name` stands in env.def.
const std::string& env(std::string_view name);
// The value as a number. Throws Error naming the switch when it is none or outside [least, most].
int64_t env_int(std::string_view name, int64_t least, int64_t most);

// Reads the table again: for tests that set a variable. Call it while no other thread runs.
void reread_env();

}  // namespace sardonyx::support
