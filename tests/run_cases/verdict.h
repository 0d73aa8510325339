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

// Of a gradient check: elements that were compared, and those left out because the function has a
// kink, a jump or a pole there.
struct Points {
  int64_t checked = 0, kinks = 0;
};

// How a note begins about an operand that a gradient check leaves out; its reason follows.
inline constexpr const char* kLeftOut = "left out: ";

struct Verdict {
  Status status = Status::kPass;
  std::string reason = {};
  bool broken = false;  // crash, hang, memory, internal error
  // A failure that was expected, so it doesn't count: why.
  std::string pending = {};
  // Further lines: an accepted refusal, how the default rule chose.
  std::vector<std::string> notes = {};
  Points points = {};
  double seconds = 0;
};

class Outcome : public std::exception {
 public:
  template <class... Args>
  explicit Outcome(fmt::format_string<Args...> format, Args&&... args)
      : message_(fmt::format(format, std::forward<Args>(args)...)) {}
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

class Mismatch : public Outcome {
 public:
  using Outcome::Outcome;
};

// A node test without a gradient that could be checked, and why: the report counts equal reasons.
class NothingToCheck : public Outcome {
 public:
  using Outcome::Outcome;
};

}  // namespace sardonyx::cases
