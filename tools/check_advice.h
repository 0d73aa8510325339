// What `sardonyx check` says about what comes next: the data that the command takes, and what to do
// with a file that can't be trained.
#pragma once

#include <string>
#include <vector>

#include "runtime/config.h"
#include "tools/check_report.h"

namespace sardonyx::tools {

// Scores that can only be values, since one class can't be told from another.
bool one_value_per_row(const graph::TensorType& scores);

// What the data must be: "float32 [N,3,32,32]", "int64 [N] in 0..9", "cross_entropy over 'y'".
struct DataNeeds {
  std::string samples, labels, loss, output;
  int64_t classes = -1;
};
DataNeeds data_needs(const CheckReport& report, const runtime::Flags& flags);
// The same as lines, and what else was taken for granted.
std::vector<std::string> assumptions(const CheckReport& report, const runtime::Flags& flags);
// How to say sizes that the file leaves open. Only where there are some.
std::string sizes_step(const CheckReport& report, const runtime::Flags& flags);
// What to do with a file that can't be trained, or can't be planned; "" when nothing is known.
std::string next_step(const CheckReport& report, const runtime::Flags& flags);

}  // namespace sardonyx::tools
