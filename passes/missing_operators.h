// Standard operators that there is no room for: a user should learn that the operator is known and
// missing, not that its name is wrong. docs/limits.md lists them.
#pragma once

#include <string>

namespace sardonyx::passes {

// Why the operator `name` of the standard domain can't be run, and what to do where that is known;
// "" when it is none of them.
std::string missing_standard_operator(const std::string& name);

}  // namespace sardonyx::passes
