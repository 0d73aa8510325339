// The change of operands that lets a column-major library multiply row-major matrices.
#include "ops/core/cuda_native/cublas_layout.h"

#include <gtest/gtest.h>

#include <vector>

namespace sardonyx::ops::cublas {
namespace {

std::vector<double> numbers(int64_t count, double first) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(first + static_cast<double>(i * i % 7));
  return values;
}

double at(const std::vector<double>& data, const Matrix& matrix, Trans trans, int64_t row,
          int64_t column, int64_t batch) {
  if (trans == Trans::kYes) std::swap(row, column);
  EXPECT_LT(row, matrix.rows);
  EXPECT_LT(column, matrix.columns);
  return data.at(batch * matrix.stride + row + column * matrix.leading);
}

// As the library does it, from the definition of column-major order.
std::vector<double> column_major_result(const ProductDesc& desc, const std::vector<double>& a,
                                        const std::vector<double>& b) {
  const ColumnMajorProduct p = column_major(desc);
  std::vector<double> c(desc.batch * desc.m * desc.n);
  for (int64_t batch = 0; batch < desc.batch; ++batch) {
    for (int64_t row = 0; row < p.out.rows; ++row) {
      for (int64_t column = 0; column < p.out.columns; ++column) {
        double sum = 0;
        for (int64_t i = 0; i < desc.k; ++i) {
          sum += at(b, p.first, p.trans_first, row, i, batch) *
                 at(a, p.second, p.trans_second, i, column, batch);
        }
        c.at(batch * p.out.stride + row + column * p.out.leading) = sum;
      }
    }
  }
  return c;
}

TEST(CublasLayout, gives_the_row_major_product_of_all_transposes_and_batches) {
  for (const Trans trans_a : {Trans::kNo, Trans::kYes}) {
    for (const Trans trans_b : {Trans::kNo, Trans::kYes}) {
      ProductDesc desc;
      desc.m = 2, desc.n = 3, desc.k = 4, desc.batch = 2;
      desc.trans_a = trans_a, desc.trans_b = trans_b;
      desc.stride_a = 8, desc.stride_b = 12, desc.stride_c = 6;
      const std::vector<double> a = numbers(16, 1), b = numbers(24, -2);
      const std::vector<double> c = column_major_result(desc, a, b);
      for (int64_t batch = 0; batch < 2; ++batch) {
        for (int64_t row = 0; row < 2; ++row) {
          for (int64_t column = 0; column < 3; ++column) {
            double expected = 0;
            for (int64_t i = 0; i < 4; ++i) {
              expected += a[batch * 8 + (trans_a == Trans::kNo ? row * 4 + i : i * 2 + row)] *
                          b[batch * 12 + (trans_b == Trans::kNo ? i * 3 + column : column * 4 + i)];
            }
            EXPECT_EQ(c[batch * 6 + row * 3 + column], expected);
          }
        }
      }
    }
  }
}

TEST(CublasLayout, bias_lies_along_the_rows_of_the_result) {
  ProductDesc desc;
  desc.m = 2, desc.n = 3, desc.k = 4;
  EXPECT_EQ(column_major(desc).out.rows, 3);
}

}  // namespace
}  // namespace sardonyx::ops::cublas
