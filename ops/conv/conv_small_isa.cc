// The product of conv_small.h: scalars that are read where they lie, at any distance, times vectors
// of 16 lanes. Every vector that is loaded serves kRows scalars, every scalar all vectors of the
// block, so that neither has to come from the first-level cache.
#include "ops/conv/conv_small.h"

#include "ops/core/lanes_vector.h"

namespace sardonyx::ops::conv::small::SARDONYX_ISA {

namespace {

using namespace lanes::SARDONYX_ISA;
using lanes::kLanes;

// Vector registers for 4 blocks of 6 sums, or for 2.
constexpr int kWidest = kRegisters == 32 ? 4 : 2;

// Products in one running sum: more would cost digits.
constexpr int64_t kRunningSum = 512;

// Terms from `t` on are added to `out`, as many as make one running sum. Returns the next.
template <int R, int B>
[[gnu::always_inline]] inline int64_t add_terms(const Product& p, int64_t t, const float* scalars,
                                                const float* vectors, float* out) {
  Vec<float> sums[R][B] = {};
  int64_t length = 0;
  do {
    const float* scalar = scalars + p.terms[t].scalar;
    const float* vector = vectors + p.terms[t].vector;
    for (int64_t k = 0; k < p.depth; ++k, scalar += p.scalar_step, vector += p.vector_step) {
      Vec<float> v[B];
#pragma GCC unroll 8
      for (int b = 0; b < B; ++b) v[b] = load(vector + b * p.vector_block);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const Vec<float> s = broadcast<float>(scalar[r * p.scalar_row]);
#pragma GCC unroll 8
        for (int b = 0; b < B; ++b) sums[r][b] += v[b] * s;
      }
    }
    length += p.depth;
  } while (++t < p.term_count && length + p.depth <= kRunningSum);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int b = 0; b < B; ++b) {
      float* to = out + r * p.out_row + b * p.out_block;
      store(to, load(to) + sums[r][b]);
    }
  }
  return t;
}

template <int R, int B>
void multiply_block(const Product& p, int64_t row, int64_t block, int lane) {
  const float* scalars = p.scalars + row * p.scalar_row;
  const float* vectors = p.vectors + block * p.vector_block + lane;
  float* out = p.out + row * p.out_row + block * p.out_block + lane;
  for (int r = 0; r < R; ++r) {
    const Vec<float> start = broadcast<float>(p.bias == nullptr ? 0.0f : p.bias[row + r]);
    for (int b = 0; b < B; ++b) store(out + r * p.out_row + b * p.out_block, start);
  }
  for (int64_t t = 0; t < p.term_count;) t = add_terms<R, B>(p, t, scalars, vectors, out);
}

template <int B>
void multiply_rows(const Product& p, int64_t block) {
  for (int lane = 0; lane < kLanes; lane += kWidth<float>) {
    int64_t row = 0;
    for (; row + kRows <= p.rows; row += kRows) multiply_block<kRows, B>(p, row, block, lane);
    for (; row + 2 <= p.rows; row += 2) multiply_block<2, B>(p, row, block, lane);
    if (row < p.rows) multiply_block<1, B>(p, row, block, lane);
  }
}

void multiply(const Product& p) {
  int64_t block = 0;
  for (; block + kWidest <= p.blocks; block += kWidest) multiply_rows<kWidest>(p, block);
  if constexpr (kWidest > 2) {
    for (; block + 2 <= p.blocks; block += 2) multiply_rows<2>(p, block);
  }
  for (; block < p.blocks; ++block) multiply_rows<1>(p, block);
}

void fill_line(const Spread& s) {
  for (int64_t i = 0; i < s.live_count; ++i) {
    const float* from = s.tiles + i * s.tile;
    float* to = s.line + s.live[i];
    for (int64_t c = 0; c < s.channels; ++c) to[c * s.taps] = from[c];
  }
}

void put(const Spread& s) {
  fill_line(s);
  const int64_t count = s.channels * s.taps;
  int64_t i = 0;
  if (reinterpret_cast<uintptr_t>(s.to) % kVectorBytes == 0) {
    for (; i + kWidth<float> <= count; i += kWidth<float>) stream(s.to + i, load(s.line + i));
  }
  for (; i < count; ++i) s.to[i] = s.line[i];
}

void add(const Spread& s) {
  fill_line(s);
  for (int64_t i = 0; i < s.channels * s.taps; ++i) s.to[i] += s.line[i];
}

void end_puts() { end_stream(); }

constexpr Loops kLoops{multiply, put, add, end_puts};

}  // namespace

const Loops& loops() { return kLoops; }

}  // namespace sardonyx::ops::conv::small::SARDONYX_ISA
