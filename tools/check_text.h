// The report of `sardonyx check` for people: one screen of 80 x 50, whatever the model. What is
// long is grouped or cut; --all prints every row.
#pragma once

#include <string>

#include "runtime/config.h"
#include "tools/check_report.h"

namespace sardonyx::tools {

// What stands in the way, in one line.
std::string headline(const CheckReport& report);

enum class Rows : uint8_t { kGrouped, kAll };
std::string report_text(const CheckReport& report, const runtime::Flags& flags, Rows rows);

}  // namespace sardonyx::tools
