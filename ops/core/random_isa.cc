// Sixteen Philox blocks side by side. The scalar form in random.cc is what these must equal.
#include "ops/core/random_loops.h"

namespace sardonyx::ops::SARDONYX_ISA {

namespace {

constexpr int kLanes = 16;

struct Blocks {
  uint32_t word[4][kLanes];
};

[[gnu::always_inline]] inline void run_rounds(uint64_t stream, Blocks& b) {
  uint32_t key0 = static_cast<uint32_t>(stream), key1 = static_cast<uint32_t>(stream >> 32);
  for (int round = 0; round < 10; ++round, key0 += 0x9e3779b9u, key1 += 0xbb67ae85u) {
// Rolled: an unrolled loop is no longer seen as vectors.
#pragma GCC unroll 1
    for (int i = 0; i < kLanes; ++i) {
      const uint64_t a = uint64_t{0xd2511f53u} * b.word[0][i];
      const uint64_t c = uint64_t{0xcd9e8d57u} * b.word[2][i];
      b.word[0][i] = static_cast<uint32_t>(c >> 32) ^ b.word[1][i] ^ key0;
      b.word[1][i] = static_cast<uint32_t>(c);
      b.word[2][i] = static_cast<uint32_t>(a >> 32) ^ b.word[3][i] ^ key1;
      b.word[3][i] = static_cast<uint32_t>(a);
    }
  }
}

[[gnu::always_inline]] inline void set(Blocks& b, int i, uint64_t counter, uint64_t sample) {
  b.word[0][i] = static_cast<uint32_t>(counter);
  b.word[1][i] = static_cast<uint32_t>(counter >> 32);
  b.word[2][i] = static_cast<uint32_t>(sample);
  b.word[3][i] = static_cast<uint32_t>(sample >> 32);
}

void chunk(uint64_t stream, int64_t sample, int64_t chunk, uint32_t* bits) {
  Blocks b;
  for (int i = 0; i < kLanes; ++i) {
    set(b, i, static_cast<uint64_t>(chunk * kLanes + i), static_cast<uint64_t>(sample));
  }
  run_rounds(stream, b);
  for (int w = 0; w < 4; ++w) {
    for (int i = 0; i < kLanes; ++i) bits[w * kLanes + i] = b.word[w][i];
  }
}

void chunk_of_lanes(uint64_t stream, int64_t first_sample, int64_t chunk, uint32_t* bits) {
  for (int i = 0; i < kLanes; ++i) {
    Blocks b;
    for (int lane = 0; lane < kLanes; ++lane) {
      set(b, lane, static_cast<uint64_t>(chunk * kLanes + i),
          static_cast<uint64_t>(first_sample + lane));
    }
    run_rounds(stream, b);
    for (int w = 0; w < 4; ++w) {
      uint32_t* to = bits + (w * kLanes + i) * kLanes;
      for (int lane = 0; lane < kLanes; ++lane) to[lane] = b.word[w][lane];
    }
  }
}

constexpr RandomLoops kLoops = {chunk, chunk_of_lanes};

}  // namespace

const RandomLoops& random_loops() { return kLoops; }

}  // namespace sardonyx::ops::SARDONYX_ISA
