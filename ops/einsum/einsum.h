// Private to ops/einsum: what an equation says about the axes of its operands.
#pragma once

#include <string>
#include <vector>

#include "ops/core/composed.h"

namespace sardonyx::ops::einsum {

// One per index: its letter; behind those, the axes that "..." stands for, which are aligned at
// their end.
using Label = int;
using Labels = std::vector<Label>;
inline constexpr Label kFirstEllipsis = 256;

struct Equation {
  std::vector<Labels> inputs;  // the axes of each operand
  Labels output;
};

// Throws ConstraintError.
Equation read_equation(const std::string& text, const std::vector<int>& ranks);
// "i", "axis 2 of ..."
std::string label_name(Label label);

void write_einsum(ComposeContext& c);

}  // namespace sardonyx::ops::einsum
