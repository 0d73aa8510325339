// Each chunk is summed in the first-level cache, so that every rank's memory is read and written
// once.
#include "runtime/collectives/sum_loops.h"

#include <cstdint>

namespace sardonyx::runtime::SARDONYX_ISA {

namespace {

constexpr size_t kChunkBytes = 8192;

struct Exact {
  template <class T>
  [[gnu::always_inline]] static T round(T value) {
    return value;
  }
};

struct ToBFloat16 {
  [[gnu::always_inline]] static float round(float value) {
    const auto bits = __builtin_bit_cast(uint32_t, value);
    const uint32_t nearest = bits + 0x7fff + ((bits >> 16) & 1);
    const uint32_t kept = value == value ? nearest : bits | 0x400000;
    return __builtin_bit_cast(float, kept & 0xffff0000);
  }
};

template <class Rounding, class T>
void sum(T* const* data, int ranks, size_t begin, size_t end) {
  constexpr size_t kChunk = kChunkBytes / sizeof(T);
  alignas(64) T sum[kChunk];
  for (size_t at = begin; at < end; at += kChunk) {
    const size_t n = end - at < kChunk ? end - at : kChunk;
    const T* first = data[0] + at;
    for (size_t i = 0; i < n; ++i) sum[i] = Rounding::round(first[i]);
    for (int r = 1; r < ranks; ++r) {
      const T* term = data[r] + at;
      for (size_t i = 0; i < n; ++i) sum[i] += Rounding::round(term[i]);
    }
    for (size_t i = 0; i < n; ++i) sum[i] = Rounding::round(sum[i]);
    for (int r = 0; r < ranks; ++r) __builtin_memcpy(data[r] + at, sum, n * sizeof(T));
  }
}

constexpr SumLoops kLoops = {sum<Exact, float>, sum<Exact, double>, sum<ToBFloat16, float>};

}  // namespace

const SumLoops& sum_loops() { return kLoops; }

}  // namespace sardonyx::runtime::SARDONYX_ISA
