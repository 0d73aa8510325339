// Refusals that kernels of several rooms share, for KernelDef::declines.
//
// Operands left out never refuse. What only one room asks for stands in its own *_cpu.cc.
#pragma once

#include <vector>

#include "ops/core/kernel.h"

namespace sardonyx::ops {

Refusal unless_float();           // input 0 is float or double
Refusal unless_float32();         // input 0 is float
Refusal unless_stored_float();    // input 0 is float, double or bfloat16
Refusal unless_numbers();         // all inputs are float, double or integers
Refusal unless_elements();        // input 0 is float, double, integer or bool
Refusal unless_integers();        // input 0 is
Refusal unless_int32_or_int64();  // input 0 is
Refusal unless_one_dtype();       // all inputs have the element type of input 0
Refusal unless_sized();           // all elements have 1, 2, 4 or 8 bytes, whatever they mean
Refusal unless_equal_layouts();   // all operands have the layout of input 0
Refusal beyond_axes(int most);    // input 0 [N, C, ...] has more than `most` (2 or 3) spatial axes
// All outputs and the first `data_inputs` inputs are in lanes.
Refusal unless_in_lanes(int data_inputs);

std::vector<Refusal> joined(std::vector<Refusal> first, const std::vector<Refusal>& then);

}  // namespace sardonyx::ops
