// Products by Eigen. Rows or columns are cut over the pool.
#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>

#include "ops/core/matrix_product.h"

namespace sardonyx::ops::matrix {

namespace {

template <int kOrder>
using Dense = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, kOrder>;
template <int kOrder>
using Block = Eigen::Map<const Dense<kOrder>, 0, Eigen::OuterStride<>>;
using Output = Eigen::Map<Dense<Eigen::RowMajor>, 0, Eigen::OuterStride<>>;

// The part of c from (row, column), rows x columns. A transposed row-major matrix is a column-major
// one.
template <int kOrderA, int kOrderB>
void multiply_part(const Product& p, Rows<const double> a, Rows<const double> b, Write write,
                   Rows<double> c, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  constexpr bool trans_a = kOrderA == Eigen::ColMajor, trans_b = kOrderB == Eigen::ColMajor;
  const Block<kOrderA> left(a.data + row * (trans_a ? 1 : a.stride), rows, p.k,
                            Eigen::OuterStride<>(a.stride));
  const Block<kOrderB> right(b.data + column * (trans_b ? b.stride : 1), p.k, columns,
                             Eigen::OuterStride<>(b.stride));
  Output out(c.data + row * c.stride + column, rows, columns, Eigen::OuterStride<>(c.stride));
  if (write == Write::kAdd) {
    out.noalias() += p.alpha * (left * right);
  } else {
    out.noalias() = p.alpha * (left * right);
  }
}

void multiply_eigen(const Product& p, Rows<const double> a, Rows<const double> b, Write write,
                    Rows<double> c, ThreadPool& pool) {
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

Multiply<double> eigen_product() { return multiply_eigen; }

}  // namespace sardonyx::ops::matrix
