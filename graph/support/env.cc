#include "graph/support/env.h"

#include <charconv>
#include <cstdlib>

#include "graph/support/error.h"

namespace sardonyx::support {
namespace {

EnvSwitch read(const char* name, const char* fallback, const char* help) {
  const char* value = std::getenv(name);
  // An empty variable counts as not set: `SARDONYX_X= sardonyx ...` is how a shell unsets it.
  const bool is_set = value != nullptr && *value != '\0';
  return {name, fallback, help, is_set ? value : fallback, is_set};
}

std::vector<EnvSwitch> read_all() {
  return {
#define ENV(name, fallback, help) read(#name, fallback, help),
#include "graph/support/env.def"
#undef ENV
  };
}

std::vector<EnvSwitch>& table() {
  static std::vector<EnvSwitch> switches = read_all();
  return switches;
}

}  // namespace

const std::vector<EnvSwitch>& env_switches() { return table(); }

const std::string& env(std::string_view name) {
  for (const EnvSwitch& entry : table()) {
    if (entry.name == name) return entry.value;
  }
  CHECK(false, "{} is not in env.def", name);
}

int64_t env_int(std::string_view name, int64_t least, int64_t most) {
  const std::string& text = env(name);
  int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || number < least || number > most) {
    throw Error("the environment has {}={}, expected a number from {} to {}", name, text, least,
                most);
  }
  return number;
}

void reread_env() { table() = read_all(); }

}  // namespace sardonyx::support
