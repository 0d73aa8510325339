// The most floating-point operations per second that threads of this machine reach: multiply-adds
// in registers alone, at the vector width of the lane kernels. What a kernel's speed is compared
// with.
#pragma once

#include "graph/type.h"

namespace sardonyx::runtime {

// Of `threads` threads together, all at work for 0.1 s. Each counts with the fastest tenth of its
// runs, which are shorter than a time slice: other programs hardly lower the result. `dtype` is
// kFloat32 or kFloat64.
double probed_peak_flops(int threads, graph::DType dtype);

}  // namespace sardonyx::runtime
