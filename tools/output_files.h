// Files that a command will write, checked before it does any work.
#pragma once

#include <string>

namespace sardonyx::tools {

// Throws Error when `path` is one of the inputs or can't be written there (a trial file beside it
// is made and removed). Does nothing when it is empty.
void check_output(const std::string& flag, const std::string& path, const std::string& input);

}  // namespace sardonyx::tools
