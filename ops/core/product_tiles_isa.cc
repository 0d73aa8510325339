// Register blocks of a matrix product: kRows x kVectors vectors of c stay in registers over all of
// k. Elements of a are broadcast from where they lie.
#include "ops/core/product_tiles.h"

#include "ops/core/lanes_vector.h"

namespace sardonyx::ops::matrix::SARDONYX_ISA {
namespace {

using lanes::SARDONYX_ISA::broadcast;
using lanes::SARDONYX_ISA::kRegisters;
using lanes::SARDONYX_ISA::load;
using lanes::SARDONYX_ISA::store;
using lanes::SARDONYX_ISA::transpose;
using lanes::SARDONYX_ISA::Vec;

constexpr int kWidth = lanes::SARDONYX_ISA::kWidth<float>;
constexpr int kRows = 6;
constexpr int kVectors = kRegisters == 32 ? 4 : 2;
constexpr int kColumns = kVectors * kWidth;

// Where one tile of a block starts.
struct Tile {
  const float* a;
  const float* b;
  float* c;
  int64_t columns;  // at most kColumns
};

[[gnu::always_inline]] inline void put(Vec<float> sum, bool add, float* to) {
  store(to, add ? load(to) + sum : sum);
}

// The columns that fill no vector, of RB rows that lie one behind the other in `sums`.
template <int RB>
void put_rest(const float* sums, int64_t columns, bool add, float* c, ptrdiff_t c_row) {
  for (int r = 0; r < RB; ++r, sums += kWidth, c += c_row) {
    for (int64_t j = 0; j < columns; ++j) c[j] = add ? c[j] + sums[j] : sums[j];
  }
}

// RB rows x VB vectors; kTurned: a is stored [k, rows].
template <int RB, int VB, bool kTurned>
[[gnu::noinline]] void run_tile(const TileBlock& block, const Tile& tile) {
  Vec<float> sums[RB][VB] = {};
  const float* a[RB];
#pragma GCC unroll 8
  for (int r = 0; r < RB; ++r) a[r] = tile.a + (kTurned ? 0 : r * block.a_row);
  const float* b = tile.b;
  const ptrdiff_t a_column = block.a_column, b_row = block.b_row;
  const int64_t count = block.k;
  for (int64_t k = 0; k < count; ++k, b += b_row) {
    Vec<float> x[VB];
#pragma GCC unroll 8
    for (int v = 0; v < VB; ++v) x[v] = load(b + v * kWidth);
#pragma GCC unroll 8
    for (int r = 0; r < RB; ++r) {
      const Vec<float> factor = broadcast<float>(kTurned ? a[0][k * a_column + r] : a[r][k]);
#pragma GCC unroll 8
      for (int v = 0; v < VB; ++v) sums[r][v] += x[v] * factor;
    }
  }
  const Vec<float> alpha = broadcast<float>(block.alpha);
  const int64_t rest = tile.columns - (VB - 1) * kWidth;
  alignas(64) float last[RB * kWidth];
#pragma GCC unroll 8
  for (int r = 0; r < RB; ++r) {
    float* c = tile.c + r * block.c_row;
#pragma GCC unroll 8
    for (int v = 0; v + 1 < VB; ++v) put(alpha * sums[r][v], block.add, c + v * kWidth);
    if (rest == kWidth) {
      put(alpha * sums[r][VB - 1], block.add, c + (VB - 1) * kWidth);
    } else {
      store(last + r * kWidth, alpha * sums[r][VB - 1]);
    }
  }
  if (rest < kWidth) put_rest<RB>(last, rest, block.add, tile.c + (VB - 1) * kWidth, block.c_row);
}

template <int RB, int VB>
void with_vectors(int64_t rows, const TileBlock& block, const Tile& tile) {
  if constexpr (RB > 1) {
    if (rows < RB) return with_vectors<RB - 1, VB>(rows, block, tile);
  }
  if (block.a_row == 1) {
    run_tile<RB, VB, true>(block, tile);
  } else {
    run_tile<RB, VB, false>(block, tile);
  }
}

template <int VB>
void with_size(int64_t rows, const TileBlock& block, const Tile& tile) {
  if constexpr (VB > 1) {
    if (tile.columns <= (VB - 1) * kWidth) return with_size<VB - 1>(rows, block, tile);
  }
  with_vectors<kRows, VB>(rows, block, tile);
}

// Rows outermost: those of a stay in the first cache, and c is written row by row.
void multiply(const TileBlock& block) {
  for (int64_t i = 0; i < block.rows; i += kRows) {
    const int64_t rows = block.rows - i < kRows ? block.rows - i : kRows;
    for (int64_t j = 0; j < block.columns; j += kColumns) {
      const int64_t columns = block.columns - j < kColumns ? block.columns - j : kColumns;
      with_size<kVectors>(rows, block,
                          {block.a + i * block.a_row, block.b + j / kColumns * block.b_panel,
                           block.c + i * block.c_row + j, columns});
    }
  }
}

void pack_rows(const float* b, ptrdiff_t row, int64_t k, int64_t columns, float* to) {
  for (int64_t i = 0; i < k; ++i, b += row, to += kColumns) {
    if (columns == kColumns) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) store(to + v * kWidth, load(b + v * kWidth));
    } else {
      for (int64_t j = 0; j < kColumns; ++j) to[j] = j < columns ? b[j] : 0.0f;
    }
  }
}

void pack_turned(const float* b, ptrdiff_t row, int64_t k, int64_t columns, float* to) {
  for (int64_t j = 0; j < kColumns; j += kWidth, to += kWidth, b += kWidth * row) {
    int64_t i = 0;
    if (j + kWidth <= columns) {
      for (; i + kWidth <= k; i += kWidth) {
        Vec<float> v[kWidth];
#pragma GCC unroll 16
        for (int n = 0; n < kWidth; ++n) v[n] = load(b + n * row + i);
        transpose<float>(v);
#pragma GCC unroll 16
        for (int n = 0; n < kWidth; ++n) store(to + (i + n) * kColumns, v[n]);
      }
    }
    for (; i < k; ++i) {
      for (int n = 0; n < kWidth; ++n)
        to[i * kColumns + n] = j + n < columns ? b[n * row + i] : 0.0f;
    }
  }
}

void pack(const float* b, ptrdiff_t row, bool turned, int64_t k, int64_t columns, float* to) {
  for (int64_t j = 0; j < columns; j += kColumns, to += kColumns * k) {
    const int64_t some = columns - j < kColumns ? columns - j : kColumns;
    if (turned) {
      pack_turned(b + j * row, row, k, some, to);
    } else {
      pack_rows(b + j, row, k, some, to);
    }
  }
}

constexpr ProductTiles kTiles = {kWidth, kColumns, kRows, multiply, pack};

}  // namespace

const ProductTiles& product_tiles() { return kTiles; }

}  // namespace sardonyx::ops::matrix::SARDONYX_ISA
