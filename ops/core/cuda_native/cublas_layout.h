// Row-major products as the column-major library takes them.
//
// A row-major matrix is its transpose in column-major order, so c = op(a) op(b) becomes
// c' = op(b)' op(a)': the operands change places, and nothing is transposed that wasn't. The bias
// [n] then lies along the rows, where the library's epilogue wants it.
#pragma once

#include <cstdint>

#include "ops/core/cublas.h"

namespace sardonyx::ops::cublas {

// Column-major: element (row, column) stands at row + column * leading.
struct Matrix {
  int64_t rows = 0, columns = 0, leading = 0;
  int64_t stride = 0;  // elements from one matrix of the batch to the next
};

// out = op(first) op(second).
struct ColumnMajorProduct {
  Matrix first, second, out;
  Trans trans_first = Trans::kNo, trans_second = Trans::kNo;
};

// `first` is desc's b and `second` its a, as they lie in memory.
inline ColumnMajorProduct column_major(const ProductDesc& desc) {
  const auto stored = [](int64_t rows, int64_t columns, Trans trans, int64_t stride) {
    // Row-major [rows, columns], or [columns, rows] when it is to be transposed.
    return trans == Trans::kNo ? Matrix{columns, rows, columns, stride}
                               : Matrix{rows, columns, rows, stride};
  };
  return {stored(desc.k, desc.n, desc.trans_b, desc.stride_b),
          stored(desc.m, desc.k, desc.trans_a, desc.stride_a),
          {desc.n, desc.m, desc.n, desc.stride_c},
          desc.trans_b,
          desc.trans_a};
}

}  // namespace sardonyx::ops::cublas
