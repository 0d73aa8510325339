// The loops under `tiled_product`: a register block of c, and b turned into panels for it.
//
// A panel holds kTileColumns neighbouring columns of b, one row behind the other, so that the loop
// over k walks memory once. Each element of c is one chain of multiply-adds in the order of k,
// whatever part of c a call covers: how the work is cut never changes a bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/core/isa.h"

namespace sardonyx::ops::matrix {

// c[i,j] (+)= alpha * sum_k a(i,k) b(k,j), for rows x columns elements of c.
struct TileBlock {
  int64_t rows, columns, k;
  // a(i,k) is a[i * a_row + k * a_column]; one of the two strides is 1.
  const float* a;
  ptrdiff_t a_row, a_column;
  // b(k,j) is b[(j / W) * b_panel + k * b_row + j % W], W = ProductTiles::columns. Whole vectors
  // are read: behind the last column there must be memory up to a multiple of `vector`.
  const float* b;
  ptrdiff_t b_panel, b_row;
  float alpha;
  bool add;
  float* c;
  ptrdiff_t c_row;
};

struct ProductTiles {
  int vector, columns, rows;  // floats of a vector, and the register block in elements of c
  void (*multiply)(const TileBlock& block);
  // b(k,j) = b[k * row + j], or b[j * row + k] where `turned`, as panels of `columns` columns and k
  // rows; the last is filled up with zeros.
  void (*pack)(const float* b, ptrdiff_t row, bool turned, int64_t k, int64_t columns, float* to);
};

// The copies of product_tiles_isa.cc.
namespace baseline {
const ProductTiles& product_tiles();
}
namespace avx2 {
const ProductTiles& product_tiles();
}
namespace avx512 {
const ProductTiles& product_tiles();
}

}  // namespace sardonyx::ops::matrix
