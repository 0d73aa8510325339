// What is wrong with a command line itself, whatever the files hold: exit code 2.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "graph/support/error.h"

namespace sardonyx::runtime {

class UsageError : public Error {
 public:
  using Error::Error;
};

// Throws UsageError unless `value` is one of `built`: for one of `planned` "FLAG l1 is not built
// yet", else "FLAG 'l2' is not known" with near names; both list what there is.
void check_choice(const std::string& flag, const std::string& value,
                  const std::vector<std::string>& built,
                  const std::vector<std::string>& planned = {});

// Throws UsageError unless `value` is in [least, most]; infinities and NaN never are. kAny: no
// bound.
inline constexpr double kAny = HUGE_VAL;
void check_range(const char* flag, double value, double least, double most);

// Errors of `body` become usage errors: for texts of flags that a library parses.
template <class Body>
decltype(auto) as_usage(const std::string& flag, Body&& body) {
  try {
    return body();
  } catch (const Error& error) {
    const std::string text = error.what();
    throw UsageError(text.starts_with("--") ? text : flag + ": " + text);
  }
}

}  // namespace sardonyx::runtime
