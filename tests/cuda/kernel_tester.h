// Tries CUDA kernels on the cases of tests/support/op_tester.h: through device memory and a stream,
// against the CPU's reference kernel.
//
//   check_cuda({.claim = "relu_of_257", .op = "Relu", .inputs = {random({257})}});
//
// runs every CUDA kernel that takes the case, with float, double and bfloat16, alone and with other
// numbers of rows, in place, accumulating, with operands that begin off a pack, outputs full of
// garbage and guard bytes around everything; where `batch`, with channels last, too; libraries
// multiply as TF32, too; then those of the nodes that the gradient rule writes. In this executable
// check_op does the same, but that no kernel need take the case.
#pragma once

#include <string>

#include "tests/support/op_tester.h"

namespace sardonyx::test {

// Some kernel must take the float run.
void check_cuda(const OpCase& op_case);
// The sentence with which the CUDA kernel of this name declines the float run; "" when it takes it.
std::string cuda_refusal(const OpCase& op_case, const std::string& kernel);

}  // namespace sardonyx::test
