// Products of integers of 32 and 64 bits, for Gemm and MatMul: plain loops, sums and products wrap
// around. No training multiplies them; files compute positions and sizes so.
#include <algorithm>

#include "ops/core/dispatch.h"
#include "ops/core/integers.h"
#include "ops/core/refusals.h"
#include "ops/gemm/gemm.h"

namespace sardonyx::ops {

namespace gemm {

bool is_multiplied_integer(DType dtype) {
  return dtype == DType::kInt32 || dtype == DType::kInt64 || dtype == DType::kUint32 ||
         dtype == DType::kUint64;
}

namespace {

// c = c + factor * product, c = factor * product; matrices without gaps between their rows.
template <class T>
void multiply(const Product& p, T factor, const T* a, const T* b, Write write, T* c,
              ThreadPool& pool) {
  const bool a_turned = p.trans_a == Trans::kYes, b_turned = p.trans_b == Trans::kYes;
  const int64_t a_row = a_turned ? 1 : p.k, a_column = a_turned ? p.m : 1;
  const int64_t b_row = b_turned ? 1 : p.n, b_column = b_turned ? p.k : 1;
  const int64_t work = std::max<int64_t>(p.n, 1) * std::max<int64_t>(p.k, 1);
  parallel_for(pool, p.m, std::max<int64_t>(1, 16384 / work), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t j = 0; j < p.n; ++j) {
        T sum = 0;
        for (int64_t k = 0; k < p.k; ++k) {
          sum = wrapped_sum(
              sum, wrapped_product(a[i * a_row + k * a_column], b[k * b_row + j * b_column]));
        }
        T& to = c[i * p.n + j];
        sum = wrapped_product(factor, sum);
        to = write == Write::kAdd ? wrapped_sum(to, sum) : sum;
      }
    }
  });
}

void run_gemm(const KernelRequest& request, CpuContext& context) {
  const GemmShape shape = GemmShape::of(request);
  const Product& p = shape.product;
  dispatch_number(request.in[0].dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T>) {
      T* y = context.out<T>(0);
      if (shape.reads_c) {
        const T beta = static_cast<T>(static_cast<int64_t>(shape.beta));
        const T* c = context.in<T>(2);
        for (int64_t i = 0; i < p.m; ++i) {
          for (int64_t j = 0; j < p.n; ++j) {
            y[i * p.n + j] =
                wrapped_product(beta, c[i * shape.c_row_stride + j * shape.c_column_stride]);
          }
        }
      }
      multiply<T>(p, static_cast<T>(static_cast<int64_t>(p.alpha)), context.in<T>(0),
                  context.in<T>(1), shape.reads_c ? Write::kAdd : Write::kOverwrite, y,
                  *context.pool);
    }
  });
}

void run_matmul(const KernelRequest& request, CpuContext& context) {
  const MatMulShape shape = MatMulShape::of(request);
  const Product& p = shape.product;
  dispatch_number(request.in[0].dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T>) {
      for (size_t i = 0; i < shape.a_offsets.size(); ++i) {
        multiply<T>(p, T{1}, context.in<T>(0) + shape.a_offsets[i],
                    context.in<T>(1) + shape.b_offsets[i], Write::kOverwrite,
                    context.out<T>(0) + static_cast<int64_t>(i) * p.m * p.n, *context.pool);
      }
    }
  });
}

}  // namespace

void add_integer_kernels(KernelRegistry& kernels) {
  KernelDef def;
  def.name = "gemm.integers";
  def.declines = {{"takes integers of 32 and 64 bits only", [](const KernelRequest& request) {
                     return !is_multiplied_integer(request.in[0].dtype);
                   }}};
  def.op = "Gemm";
  def.create = simple_kernel(run_gemm);
  kernels.add(def);
  def.op = "MatMul";
  def.create = simple_kernel(run_matmul);
  kernels.add(def);
}

}  // namespace gemm

}  // namespace sardonyx::ops
