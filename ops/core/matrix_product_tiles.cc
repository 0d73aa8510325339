// Products by the register blocks of product_tiles.h, for any size; they are best at the small
// matrices of attention and where b is stored transposed. Cut into pieces of k and of columns whose
// panels of b stay in the second cache; threads share the panels and cut the rows (or the columns,
// of few rows).
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "ops/core/matrix_product.h"
#include "ops/core/product_tiles.h"

namespace sardonyx::ops::matrix {

namespace {

constexpr int64_t kDepth = 256;          // of k
constexpr int64_t kPieceColumns = 768;   // with kDepth, in floats: 768 KiB
constexpr int64_t kMostRows = 6;         // of a register block
constexpr int64_t kDirectB = 16 * 1024;  // floats of b that aren't worth panels
constexpr int64_t kFewRows = 48;         // likewise, however large b is
constexpr int64_t kDirectRow = 256;      // longest stored row of a transposed a that isn't copied
constexpr int64_t kThreadWork = 32 * 1024;  // multiplications below which a thread costs too much

// Floats, aligned to a cache line, that a thread keeps; at most kDepth * kPieceColumns.
class Panels {
 public:
  float* at_least(int64_t count) {
    if (count > size_) {
      const size_t bytes = (static_cast<size_t>(count) * sizeof(float) + 63) / 64 * 64;
      data_.reset(static_cast<float*>(std::aligned_alloc(64, bytes)));
      if (data_ == nullptr) throw std::bad_alloc();
      size_ = count;
    }
    return data_.get();
  }

 private:
  struct Free {
    void operator()(float* data) const { std::free(data); }
  };
  std::unique_ptr<float, Free> data_;
  int64_t size_ = 0;
};

int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// One piece of columns and of k: `at` has all of m, and strides as they are stored.
class Piece {
 public:
  Piece(const ProductTiles& tiles, const Product& p, const TileBlock& at, ThreadPool& pool)
      : tiles_(tiles), p_(p), at_(at), pool_(pool) {}

  void run() {
    put_b();
    const int64_t columns = at_.columns, threads = pool_.size();
    const int64_t share = round_up((p_.m + threads - 1) / threads, tiles_.rows);
    if (p_.m >= 2 * tiles_.rows || columns <= tiles_.columns) {
      const int64_t grain = std::max<int64_t>(1, kThreadWork / (share * columns * at_.k));
      const int64_t count = (p_.m + share - 1) / share;
      parallel_for(pool_, count, grain, [&](int64_t begin, int64_t end) {
        rows(begin * share, std::min(end * share, p_.m), 0, columns);
      });
      return;
    }
    const int64_t panels = (columns + tiles_.columns - 1) / tiles_.columns;
    const int64_t grain = std::max<int64_t>(1, kThreadWork / (p_.m * tiles_.columns * at_.k));
    parallel_for(pool_, panels, grain, [&](int64_t begin, int64_t end) {
      rows(0, p_.m, begin * tiles_.columns, std::min(end * tiles_.columns, columns));
    });
  }

 private:
  void put_b() {
    const bool turned = p_.trans_b == Trans::kYes;
    const bool few = at_.k * at_.columns <= kDirectB || p_.m <= kFewRows;
    if (!turned && few && at_.columns % tiles_.vector == 0) {
      at_.b_panel = tiles_.columns;
      return;
    }
    thread_local Panels mine;
    const int64_t panels = (at_.columns + tiles_.columns - 1) / tiles_.columns;
    float* to = mine.at_least(panels * tiles_.columns * at_.k);
    const float* from = at_.b;
    const ptrdiff_t row = at_.b_row;
    parallel_for(pool_, panels, std::max<int64_t>(1, kThreadWork / (tiles_.columns * at_.k)),
                 [&](int64_t begin, int64_t end) {
                   const int64_t first = begin * tiles_.columns;
                   tiles_.pack(from + first * (turned ? row : 1), row, turned, at_.k,
                               std::min(end * tiles_.columns, at_.columns) - first,
                               to + first * at_.k);
                 });
    at_.b = to;
    at_.b_panel = tiles_.columns * at_.k;
    at_.b_row = tiles_.columns;
  }

  // The part of c from (row, column) on, up to (row_end, column_end); `column` begins a panel.
  void rows(int64_t row, int64_t row_end, int64_t column, int64_t column_end) const {
    TileBlock part = at_;
    part.b += column / tiles_.columns * at_.b_panel;
    part.columns = column_end - column;
    part.rows = row_end - row;
    part.a = at_.a + row * at_.a_row;
    part.c = at_.c + row * at_.c_row + column;
    if (p_.trans_a == Trans::kYes && at_.a_column > kDirectRow) {
      copy_a(part);
    } else {
      tiles_.multiply(part);
    }
  }

  // The rows of a tile side by side: far apart, they would push each other out of the first cache.
  void copy_a(const TileBlock& part) const {
    thread_local Panels mine;
    float* to = mine.at_least(kMostRows * kDepth);
    for (int64_t i = 0; i < part.rows; i += tiles_.rows) {
      TileBlock tile = part;
      tile.rows = std::min<int64_t>(tiles_.rows, part.rows - i);
      for (int64_t k = 0; k < part.k; ++k) {
        const float* from = part.a + k * part.a_column + i;
        if (tile.rows == kMostRows) {
          std::memcpy(to + k * kMostRows, from, kMostRows * sizeof(float));
        } else {
          std::copy_n(from, tile.rows, to + k * kMostRows);
        }
      }
      tile.a = to;
      tile.a_column = kMostRows;
      tile.c += i * part.c_row;
      tiles_.multiply(tile);
    }
  }

  const ProductTiles& tiles_;
  const Product& p_;
  TileBlock at_;
  ThreadPool& pool_;
};

void multiply_tiles(const ProductTiles& tiles, const Product& p, Rows<const float> a,
                    Rows<const float> b, Write write, Rows<float> c, ThreadPool& pool) {
  const bool trans_a = p.trans_a == Trans::kYes, trans_b = p.trans_b == Trans::kYes;
  const int64_t pieces = (p.k + kDepth - 1) / kDepth;
  for (int64_t j = 0; j < p.n; j += kPieceColumns) {
    for (int64_t piece = 0; piece < pieces; ++piece) {
      const int64_t k = p.k * piece / pieces, end = p.k * (piece + 1) / pieces;
      TileBlock at = {};
      at.columns = std::min(kPieceColumns, p.n - j);
      at.k = end - k;
      at.a = a.data + k * (trans_a ? a.stride : 1);
      at.a_row = trans_a ? 1 : a.stride;
      at.a_column = trans_a ? a.stride : 1;
      at.b = b.data + (trans_b ? j * b.stride + k : k * b.stride + j);
      at.b_row = b.stride;
      at.alpha = static_cast<float>(p.alpha);
      at.add = write == Write::kAdd || piece > 0;
      at.c = c.data + j;
      at.c_row = c.stride;
      Piece(tiles, p, at, pool).run();
    }
  }
}

template <const ProductTiles& (*kTiles)()>
void multiply_with(const Product& p, Rows<const float> a, Rows<const float> b, Write write,
                   Rows<float> c, ThreadPool& pool) {
  multiply_tiles(kTiles(), p, a, b, write, c, pool);
}

}  // namespace

Multiply<float> tiled_product(lanes::Isa isa) {
  switch (isa) {
    case lanes::Isa::kAvx512:
      return multiply_with<avx512::product_tiles>;
    case lanes::Isa::kAvx2:
      return multiply_with<avx2::product_tiles>;
    default:
      return multiply_with<baseline::product_tiles>;
  }
}

Multiply<float> tiled_product() {
  return best_copy(tiled_product(lanes::Isa::kBaseline), tiled_product(lanes::Isa::kAvx2),
                   tiled_product(lanes::Isa::kAvx512));
}

}  // namespace sardonyx::ops::matrix
