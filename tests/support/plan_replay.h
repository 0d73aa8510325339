// Runs a plan on names instead of numbers: every byte knows which value was written there last, and
// every step must find what its node reads. No lifetime of the planner is believed: what overlaps
// something that is still read, from any thread's point of view, is found here.
#pragma once

#include <string>
#include <vector>

#include "passes/plan.h"

namespace sardonyx::tests {

struct PlanReplay {
  std::vector<std::string> faults;  // sentences; empty for a good plan
  // The largest number of bytes that were needed at one step: no plan with the same sharing can
  // have a smaller arena.
  size_t needed_bytes = 0;
  int in_place = 0;  // outputs that were written over an input
};

PlanReplay replay(const passes::Plan& plan, const passes::StateTable& states);

}  // namespace sardonyx::tests
