#include "ops/core/matrix_product.h"

namespace sardonyx::ops::matrix {

namespace {

template <class T>
void multiply_plain(const Product& p, Rows<const T> a, Rows<const T> b, Write write, Rows<T> c,
                    ThreadPool& pool) {
  const bool trans_a = p.trans_a == Trans::kYes, trans_b = p.trans_b == Trans::kYes;
  const int64_t a_row = trans_a ? 1 : a.stride, a_column = trans_a ? a.stride : 1;
  const int64_t b_row = trans_b ? 1 : b.stride, b_column = trans_b ? b.stride : 1;
  parallel_for(pool, p.m, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t j = 0; j < p.n; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < p.k; ++k) {
          sum += static_cast<double>(a.data[i * a_row + k * a_column]) *
                 static_cast<double>(b.data[k * b_row + j * b_column]);
        }
        T& out = c.data[i * c.stride + j];
        const double start = write == Write::kAdd ? static_cast<double>(out) : 0.0;
        out = static_cast<T>(start + p.alpha * sum);
      }
    }
  });
}

}  // namespace

template <class T>
Multiply<T> plain_product() {
  return multiply_plain<T>;
}
template Multiply<float> plain_product<float>();
template Multiply<double> plain_product<double>();

}  // namespace sardonyx::ops::matrix
