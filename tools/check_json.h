// The report of `sardonyx check` for scripts: schema sardonyx.check/1, described in docs/check.md.
// Keys are added, never changed.
#pragma once

#include <string>

#include "runtime/config.h"
#include "tools/check_report.h"

namespace sardonyx::tools {

std::string report_json(const CheckReport& report, const runtime::Flags& flags);

}  // namespace sardonyx::tools
