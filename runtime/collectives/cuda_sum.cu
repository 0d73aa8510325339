#include "ops/core/cuda.cuh"
#include "runtime/collectives/cuda_sum.h"

namespace sardonyx::runtime {

namespace {

using ops::cuda::for_elements;
using ops::cuda::grid_over;

template <class T>
struct Terms {
  T* data[kMostOnOneDevice];
};

// To the nearest bfloat16, ties to even; NaN stays NaN.
__device__ inline float as_bfloat16(float x) {
  union {
    float number;
    unsigned bits;
  } value = {x};
  if (x != x) return x;
  value.bits = (value.bits + 0x7fffu + (value.bits >> 16 & 1u)) & 0xffff0000u;
  return value.number;
}

template <class T, bool kRounds>
__global__ void add(Terms<T> terms, int ranks, int64_t begin, int64_t count) {
  for_elements(count, [&](int64_t i) {
    T sum = T(0);
    for (int r = 0; r < ranks; ++r) {
      T term = terms.data[r][begin + i];
      if constexpr (kRounds) term = as_bfloat16(term);
      sum = r == 0 ? term : sum + term;
    }
    if constexpr (kRounds) sum = as_bfloat16(sum);
    for (int r = 0; r < ranks; ++r) terms.data[r][begin + i] = sum;
  });
}

template <class T, bool kRounds>
void launch(ops::cuda::Stream stream, const SharedSum& sum) {
  Terms<T> terms = {};
  for (int r = 0; r < sum.ranks; ++r) terms.data[r] = static_cast<T*>(sum.data[r]);
  const auto count = static_cast<int64_t>(sum.end - sum.begin);
  LAUNCH((add<T, kRounds>), grid_over(count), stream, terms, sum.ranks,
         static_cast<int64_t>(sum.begin), count);
}

}  // namespace

void launch_shared_sum(ops::cuda::Stream stream, const SharedSum& sum) {
  if (sum.begin >= sum.end) return;
  if (sum.dtype == graph::DType::kFloat64) return launch<double, false>(stream, sum);
  if (sum.wire == graph::DType::kBFloat16) return launch<float, true>(stream, sum);
  launch<float, false>(stream, sum);
}

}  // namespace sardonyx::runtime
