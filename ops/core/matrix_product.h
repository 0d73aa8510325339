// Products of matrices whose rows may lie apart: what libraries compute for Gemm, MatMul and the
// recurrent operators. In gemm.cc and its like stands when to call which.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/core/lanes.h"
#include "ops/core/parallel.h"

namespace sardonyx::ops::matrix {

enum class Trans : uint8_t { kNo, kYes };
enum class Write : uint8_t { kOverwrite, kAdd };

// c[i,j] (+)= alpha * sum_k a(i,k) b(k,j), row-major as stored: `trans_a` says that a is stored
// [k,m].
struct Product {
  int64_t m = 0, n = 0, k = 0;
  Trans trans_a = Trans::kNo, trans_b = Trans::kNo;
  double alpha = 1;
};

// Elements from one stored row to the next: at least the length of a row.
template <class T>
struct Rows {
  T* data;
  int64_t stride;
};

// m, n, k > 0. The sums of one element may be cut by the number of threads.
template <class T>
using Multiply = void (*)(const Product& product, Rows<const T> a, Rows<const T> b, Write write,
                          Rows<T> c, ThreadPool& pool);

// Loops, summed in double: the reference.
template <class T>
Multiply<T> plain_product();
// Own register blocks, for the widest vectors of this processor or those of `isa`. Sums don't
// depend on the number of threads.
Multiply<float> tiled_product();
Multiply<float> tiled_product(lanes::Isa isa);
// oneDNN's sgemm, which picks instructions when it runs. nullptr: not in this build.
Multiply<float> dnnl_product();
// Eigen picks its instructions when it is compiled, and the build is for the oldest processor: for
// double only.
Multiply<double> eigen_product();

// The same for sizes of 0, too: a sum of nothing is zero.
template <class T>
void multiply(Multiply<T> function, const Product& p, Rows<const T> a, Rows<const T> b, Write write,
              Rows<T> c, ThreadPool& pool) {
  if (p.m == 0 || p.n == 0) return;
  if (p.k > 0) return function(p, a, b, write, c, pool);
  if (write == Write::kAdd) return;
  for (int64_t i = 0; i < p.m; ++i) std::fill_n(c.data + i * c.stride, p.n, T{0});
}

}  // namespace sardonyx::ops::matrix
