// Globs of the user over names of tensors.
#pragma once

#include <string>
#include <vector>

namespace sardonyx::passes {

// Throws Error `FLAG 'GLOB' matches no WHAT`, with near names, when no name matches.
void require_match(const std::string& flag, const std::string& glob,
                   const std::vector<std::string>& names, const std::string& what);

}  // namespace sardonyx::passes
