// The command that closes the report of `sardonyx check`: it can be run as it stands, once its data
// are there.
#pragma once

#include <string>

#include "runtime/config.h"
#include "tools/check_report.h"

namespace sardonyx::tools {

// The `sardonyx train` command that does what the flags of the check asked for.
std::string train_command(const CheckReport& report, const runtime::Flags& flags);
// What it can't know: " (DATA.npz: your arrays, see docs/data.md)".
std::string to_fill_in(const CheckReport& report);

}  // namespace sardonyx::tools
