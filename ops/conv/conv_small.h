// The product that conv_small.cc is made of, once per instruction set (conv_small_isa.cc). Private
// to the room.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sardonyx::ops::conv::small {

// Where a pair of cells meets: offsets of its first factors, in elements.
struct Term {
  int64_t scalar, vector;
};

// out[r][b][l] = bias[r] + sum over terms t and k < depth of
//   scalars[r * scalar_row + t.scalar + k * scalar_step] *
//   vectors[b * vector_block + t.vector + k * vector_step + l], l < 16,
// one float sum per result, in the order of terms, then k. bias[r], where it isn't null, comes
// last.
struct Product {
  const float* scalars;
  int64_t scalar_row, scalar_step;
  const float* vectors;
  int64_t vector_block, vector_step;
  const Term* terms;
  int64_t term_count, depth;
  const float* bias;
  float* out;
  int64_t out_row, out_block;
  int64_t rows, blocks;
};

// Rows and blocks that share a pass over the factors; more in one product are cut into these.
inline constexpr int64_t kRows = 6, kBlocks = 4;

// One result of each live tap for neighbouring channels, on its way into rows [channels][taps].
struct Spread {
  const float* tiles;  // of live tap i from i * tile on, a channel behind the other
  int64_t tile;
  const int64_t* live;
  int64_t live_count, taps, channels;
  float* line;  // channels * taps, zero where a tap isn't live
  float* to;
};

struct Loops {
  void (*multiply)(const Product& product);
  void (*put)(const Spread& spread);
  void (*add)(const Spread& spread);
  // Behind the last `put` of a task: `put` stores past the caches.
  void (*end_puts)();
};

namespace baseline {
const Loops& loops();
}
namespace avx2 {
const Loops& loops();
}
namespace avx512 {
const Loops& loops();
}

}  // namespace sardonyx::ops::conv::small
