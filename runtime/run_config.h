// The settings of a run that decide its numbers: what a checkpoint keeps of the command line, and
// what a resumed run may change.
//
// A flag that isn't given again takes the value it had, unless that value says nothing any more
// beside what is given (shares of other replicas). One that is given with another value is refused
// when the state of the run would lose its meaning, and noticed otherwise. A new flag of `train`
// gets its row in run_config.cc; a test of the command line misses it otherwise.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "runtime/config.h"

namespace sardonyx::runtime {

// "--lr", "0.1": in the table's order; what isn't set is left out.
using RunConfig = std::vector<std::pair<std::string, std::string>>;

RunConfig run_config(const Flags& flags);

// Fills in `flags` from the run that is resumed; flags.given are those that the user typed. Returns
// a line for each value that differs or falls away. Throws Error with all that can't change, and
// for a value that isn't one.
std::vector<std::string> take_over(Flags& flags, const RunConfig& config);

// Names of the flags in the table, for tests.
std::vector<std::string> run_config_flags();

}  // namespace sardonyx::runtime
