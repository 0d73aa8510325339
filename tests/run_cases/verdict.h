// What came out of one case. A kind of case throws `Mismatch` when something isn't as the case
// says; an `Error` of Sardonyx that nobody expected is a failure too, and everything else
// (InternalError, foreign exceptions, signals, limits) is `broken`: a fault of Sardonyx whatever
// the case asks for.
#pragma once

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "graph/support/error.h"

namespace sardonyx::cases {

enum class Status : uint8_t { kPass, kFail, kSkip };

struct Verdict {
  Status status = Status::kPass;
  std::string reason = {};
  bool broken = false;  // crash, hang, memory, internal error
  // A failure that was expected, so it doesn't count: why.
  std::string pending = {};
  // Further lines: an accepted refusal, how the default rule chose.
  std::vector<std::string> notes = {};
  double seconds = 0;
};

class Mismatch : public std::exception {
 public:
  template <class... Args>
  explicit Mismatch(fmt::format_string<Args...> format, Args&&... args)
      : message_(fmt::format(format, std::forward<Args>(args)...)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

}  // namespace sardonyx::cases
