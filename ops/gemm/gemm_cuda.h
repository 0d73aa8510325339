// What gemm.cu launches, and the other kernels of the room for CUDA devices. Private to ops/gemm.
#pragma once

#include <cstdint>

#include "graph/type.h"
#include "ops/core/cuda_sums.h"

namespace sardonyx::ops {

class KernelRegistry;

namespace gemm {

// c[i,j] (+)= alpha * sum_k a[i * a_row + k * a_column] * b[k * b_row + j * b_column], c dense.
struct StridedProduct {
  int64_t m = 0, n = 0, k = 0;
  int64_t a_row = 0, a_column = 0, b_row = 0, b_column = 0;
  double alpha = 1;
};
void launch_product(cuda::Stream stream, graph::DType dtype, const StridedProduct& product,
                    const void* a, const void* b, cuda::Write write, void* c);

// y[i,j] (+)= beta * c[i * row_stride + j * column_stride]
struct BroadcastTerm {
  int64_t m = 0, n = 0, row_stride = 0, column_stride = 0;
  double beta = 1;
};
void launch_term(cuda::Stream stream, graph::DType dtype, const BroadcastTerm& term, const void* c,
                 cuda::Write write, void* y);

// gemm_cublas_cuda.cc
void register_gemm_cublas(KernelRegistry& kernels);

}  // namespace gemm

}  // namespace sardonyx::ops
