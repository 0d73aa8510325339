// What hostile files hold: odd values of attributes and odd shapes of inputs, tried on the node of
// a case.
#pragma once

#include <string>
#include <vector>

#include "tests/support/op_tester.h"

namespace sardonyx::test {

// Sets each integer attribute of the operator to -1, 0, 2^31 and 2^62, and gives each input no
// axes, nine axes, or axes of size zero. The shape rule refuses with an Error, or what it allows is
// computed where that is small: anything else is a fault. A few cases of every operator are tried.
std::vector<std::string> odd_faults(const OpCase& op_case);

}  // namespace sardonyx::test
