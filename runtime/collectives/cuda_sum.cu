#include "ops/core/bfloat16.cuh"
#include "ops/core/cuda.cuh"
#include "runtime/collectives/cuda_sum.h"

namespace sardonyx::runtime {

namespace {

using ops::cuda::BFloat16;
using ops::cuda::for_elements;
using ops::cuda::grid_over;

template <class T>
struct Terms {
  T* data[kMostOnOneDevice];
};

template <class T, bool kRounds>
__global__ void add(Terms<T> terms, int ranks, int64_t begin, int64_t count) {
  for_elements(count, [&](int64_t i) {
    T sum = T(0);
    for (int r = 0; r < ranks; ++r) {
      T term = terms.data[r][begin + i];
      if constexpr (kRounds) term = BFloat16(term);
      sum = r == 0 ? term : sum + term;
    }
    if constexpr (kRounds) sum = BFloat16(sum);
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

union Word {
  float number;
  BFloat16 halves[2];
};

// A thread reads and writes the same places of the memory, so none overwrites what another needs.
__global__ void pack(Word* words, int64_t half, int64_t count) {
  for_elements(half, [&](int64_t i) {
    const float first = words[i].number;
    const float second = i + half < count ? words[i + half].number : 0.0f;
    words[i].halves[0] = first;
    words[i].halves[1] = second;
  });
}

__global__ void unpack(Word* words, int64_t half, int64_t count) {
  for_elements(half, [&](int64_t i) {
    const BFloat16 first = words[i].halves[0], second = words[i].halves[1];
    words[i].number = first;
    if (i + half < count) words[i + half].number = second;
  });
}

}  // namespace

void launch_pack(ops::cuda::Stream stream, void* data, size_t count) {
  const auto half = static_cast<int64_t>(packed_count(count) / 2);
  LAUNCH(pack, grid_over(half), stream, static_cast<Word*>(data), half,
         static_cast<int64_t>(count));
}

void launch_unpack(ops::cuda::Stream stream, void* data, size_t count) {
  const auto half = static_cast<int64_t>(packed_count(count) / 2);
  LAUNCH(unpack, grid_over(half), stream, static_cast<Word*>(data), half,
         static_cast<int64_t>(count));
}

void launch_shared_sum(ops::cuda::Stream stream, const SharedSum& sum) {
  if (sum.begin >= sum.end) return;
  if (sum.dtype == graph::DType::kFloat64) return launch<double, false>(stream, sum);
  if (sum.wire == graph::DType::kBFloat16) return launch<float, true>(stream, sum);
  launch<float, false>(stream, sum);
}

}  // namespace sardonyx::runtime
