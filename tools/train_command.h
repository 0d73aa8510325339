// Commands in the report of `sardonyx check`: they can be run as they stand, once the data of the
// first are there.
#pragma once

#include <string>

#include "runtime/config.h"
#include "tools/check_report.h"

namespace sardonyx::tools {

// The `sardonyx train` command that does what the flags of the check asked for.
std::string train_command(const CheckReport& report, const runtime::Flags& flags);
// The `sardonyx check` command with the same flags that would close the sizes which are open, as
// far as the made-up ones are those of the data.
std::string check_command(const CheckReport& report, const runtime::Flags& flags);
// What it can't know: " (DATA.npz: your arrays, see docs/data.md)".
std::string to_fill_in(const CheckReport& report);

}  // namespace sardonyx::tools
