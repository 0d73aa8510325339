// Flags under the names that they have elsewhere.
#pragma once

#include <string>
#include <vector>

namespace sardonyx::tools {

// " (did you mean --lr?)" for a flag that isn't among `known`: by what other programs call it, else
// by spelling; "": nothing is near. All with their dashes.
std::string flag_hint(const std::string& flag, const std::vector<std::string>& known);

}  // namespace sardonyx::tools
