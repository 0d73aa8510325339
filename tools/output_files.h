// Files that a command will write, checked before it does any work.
#pragma once

#include <string>
#include <vector>

#include "runtime/config.h"

namespace sardonyx::tools {

struct OutputFile {
  std::string flag, path;  // an empty path: not asked for
};

// Throws UsageError when two outputs are one file, and Error when one is a file that is read (the
// model, its external data, the data set), is no regular file, or can't be written there (a trial
// file beside it is made and removed).
void check_outputs(const std::vector<OutputFile>& outputs, const runtime::Flags& flags);

}  // namespace sardonyx::tools
