// Sums of the same elements in the memory of several ranks: the table that sum_loops_isa.cc fills.
#pragma once

#include <cstddef>

namespace sardonyx::runtime {

// For every i in [begin, end): data[0][i] + data[1][i] + ..., added in this order, is written to
// all data[r][i].
struct SumLoops {
  void (*f32)(float* const* data, int ranks, size_t begin, size_t end);
  void (*f64)(double* const* data, int ranks, size_t begin, size_t end);
  // Terms and result are rounded to bfloat16 (to nearest even); in between it is a float sum.
  void (*bf16)(float* const* data, int ranks, size_t begin, size_t end);
};

namespace baseline {
const SumLoops& sum_loops();
}
namespace avx2 {
const SumLoops& sum_loops();
}
namespace avx512 {
const SumLoops& sum_loops();
}

}  // namespace sardonyx::runtime
