// Products by Eigen: double only, since it picks its instructions when it is compiled, and the
// build is for the oldest processor (float: gemm_dnnl.cc). Rows or columns are cut over the pool.
#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>

#include "ops/gemm/gemm.h"

namespace sardonyx::ops::gemm {

namespace {

template <int kOrder>
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, kOrder>;
template <int kOrder>
using Block = Eigen::Map<const Matrix<kOrder>, 0, Eigen::OuterStride<>>;
using Output = Eigen::Map<Matrix<Eigen::RowMajor>, 0, Eigen::OuterStride<>>;

// The part of c from (row, column), rows x columns. A transposed row-major matrix is a column-major
// one.
template <int kOrderA, int kOrderB>
void multiply_part(const Product& p, const double* a, const double* b, Write write, double* c,
                   int64_t row, int64_t rows, int64_t column, int64_t columns) {
  constexpr bool trans_a = kOrderA == Eigen::ColMajor, trans_b = kOrderB == Eigen::ColMajor;
  const Block<kOrderA> left(a + row * (trans_a ? 1 : p.k), rows, p.k,
                            Eigen::OuterStride<>(trans_a ? p.m : p.k));
  const Block<kOrderB> right(b + column * (trans_b ? p.k : 1), p.k, columns,
                             Eigen::OuterStride<>(trans_b ? p.k : p.n));
  Output out(c + row * p.n + column, rows, columns, Eigen::OuterStride<>(p.n));
  if (write == Write::kAdd) {
    out.noalias() += p.alpha * (left * right);
  } else {
    out.noalias() = p.alpha * (left * right);
  }
}

void multiply(const Product& p, const double* a, const double* b, Write write, double* c,
              ThreadPool& pool) {
  constexpr int kRow = Eigen::RowMajor, kColumn = Eigen::ColMajor;
  const bool trans_a = p.trans_a == Trans::kYes, trans_b = p.trans_b == Trans::kYes;
  const auto part = trans_a
                        ? (trans_b ? multiply_part<kColumn, kColumn> : multiply_part<kColumn, kRow>)
                        : (trans_b ? multiply_part<kRow, kColumn> : multiply_part<kRow, kRow>);
  const bool cut_rows = p.m >= p.n;
  const int64_t length = cut_rows ? p.m : p.n, other = cut_rows ? p.n : p.m;
  // Below some 100,000 multiplications a thread costs more than it saves.
  const int64_t grain = 1 + 100000 / (other * p.k);
  parallel_for(pool, length, grain, [&](int64_t begin, int64_t end) {
    if (cut_rows) {
      part(p, a, b, write, c, begin, end - begin, 0, p.n);
    } else {
      part(p, a, b, write, c, 0, p.m, begin, end - begin);
    }
  });
}

}  // namespace

Backend eigen_backend() { return {"gemm.eigen", Speed::kPlain, nullptr, multiply}; }

}  // namespace sardonyx::ops::gemm
