#include "runtime/usage.h"

#include <algorithm>

#include "runtime/text.h"

namespace sardonyx::runtime {

void check_choice(const std::string& flag, const std::string& value,
                  const std::vector<std::string>& built, const std::vector<std::string>& planned) {
  if (std::find(built.begin(), built.end(), value) != built.end()) return;
  if (std::find(planned.begin(), planned.end(), value) != planned.end()) {
    throw UsageError("{} {}: not built yet; there is {}", flag, value, join(built));
  }
  std::vector<std::string> all = built;
  all.insert(all.end(), planned.begin(), planned.end());
  throw UsageError("{} '{}' is not known{}; there is {}", flag, value, did_you_mean(value, all),
                   join(built));
}

void check_range(const char* flag, double value, double least, double most) {
  if (std::isfinite(value) && value >= least && value <= most) return;
  throw UsageError("{} {}: expected {}", flag, value,
                   std::isinf(most) ? fmt::format("a number of at least {}", least)
                                    : fmt::format("a number from {} to {}", least, most));
}

}  // namespace sardonyx::runtime
