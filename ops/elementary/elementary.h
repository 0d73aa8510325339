// The functions of the room, one row each. Private to ops/elementary.
#pragma once

#include <vector>

namespace sardonyx::ops::elementary {

struct Function {
  const char* name;
  const char* doc;
  std::vector<int> since;
  double (*value)(double x);
  double (*slope)(double x);  // nullptr: zero wherever it exists
};

const std::vector<Function>& functions();  // elementary.cc

}  // namespace sardonyx::ops::elementary
