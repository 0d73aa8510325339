// The vector loops of the room (float and double). Private to ops/reduce.
#pragma once

#include <cstdint>

namespace sardonyx::ops::reduce {

// Columns that one unit of work adds up, in elements. A multiple of the 16 lanes.
inline constexpr int kTile = 64;

template <class T>
struct Loops {
  // Sum of n elements one behind the other.
  double (*row_sum)(const T* x, int64_t n);
  // total[j] += sum over rows of x[r * stride + j], j < cols <= kTile.
  void (*column_sums)(const T* x, int64_t rows, int64_t stride, int64_t cols, double* total);
  // The same where columns are lanes of 16 and only the first `valid` of each 16 count; the others
  // may hold NaN.
  void (*valid_column_sums)(const T* x, int64_t rows, int64_t stride, int64_t cols, int64_t valid,
                            double* total);
};

// The copies of reduce_isa.cc.
namespace baseline {
template <class T>
const Loops<T>& loops();
}
namespace avx2 {
template <class T>
const Loops<T>& loops();
}
namespace avx512 {
template <class T>
const Loops<T>& loops();
}

}  // namespace sardonyx::ops::reduce
