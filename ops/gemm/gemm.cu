// Matrix products by plain loops over tiles in shared memory, for what the library refuses and as
// the oracle on a device. Sums run in double.
#include <cmath>

#include "ops/core/bfloat16.cuh"
#include "ops/gemm/gemm_cuda.h"

namespace sardonyx::ops::gemm {

namespace {

using cuda::for_elements;
using cuda::grid_over;
using cuda::Write;

constexpr int kTile = 16;
static_assert(kTile * kTile == cuda::kBlock);

template <class T>
__global__ void product_kernel(StridedProduct p, const T* a, const T* b, Write write, T* c) {
  __shared__ T tile_a[kTile][kTile + 1], tile_b[kTile][kTile + 1];
  const int row = static_cast<int>(threadIdx.x) / kTile;
  const int column = static_cast<int>(threadIdx.x) % kTile;
  const int64_t across = (p.n + kTile - 1) / kTile, down = (p.m + kTile - 1) / kTile;
  for (int64_t tile = blockIdx.x; tile < across * down; tile += gridDim.x) {
    const int64_t i = tile / across * kTile + row, j = tile % across * kTile + column;
    double sum = 0;
    for (int64_t first = 0; first < p.k; first += kTile) {
      const int64_t ka = first + column, kb = first + row;
      tile_a[row][column] = i < p.m && ka < p.k ? a[i * p.a_row + ka * p.a_column] : T(0);
      tile_b[row][column] = j < p.n && kb < p.k ? b[kb * p.b_row + j * p.b_column] : T(0);
      __syncthreads();
      const int count = static_cast<int>(p.k - first < kTile ? p.k - first : kTile);
      for (int k = 0; k < count; ++k) {
        sum = std::fma(static_cast<double>(tile_a[row][k]), static_cast<double>(tile_b[k][column]),
                       sum);
      }
      __syncthreads();
    }
    if (i >= p.m || j >= p.n) continue;
    T& out = c[i * p.n + j];
    const double start = write == Write::kAdd ? static_cast<double>(out) : 0.0;
    out = static_cast<T>(start + p.alpha * sum);
  }
}

template <class T>
__global__ void term_kernel(BroadcastTerm t, const T* c, Write write, T* y) {
  using C = cuda::Computed<T>;
  const C beta = static_cast<C>(t.beta);
  for_elements(t.m * t.n, [&](int64_t i) {
    const C term = beta * c[i / t.n * t.row_stride + i % t.n * t.column_stride];
    y[i] = write == Write::kAdd ? y[i] + term : term;
  });
}

}  // namespace

void launch_product(cuda::Stream stream, graph::DType dtype, const StridedProduct& p, const void* a,
                    const void* b, Write write, void* c) {
  constexpr int64_t kMostBlocks = 1 << 20;
  const int64_t tiles = ((p.n + kTile - 1) / kTile) * ((p.m + kTile - 1) / kTile);
  if (tiles == 0) return;
  const cuda::Grid grid{static_cast<unsigned>(tiles < kMostBlocks ? tiles : kMostBlocks)};
  cuda::dispatch_stored(dtype, [&]<class T>() {
    LAUNCH((product_kernel<T>), grid, stream, p, static_cast<const T*>(a), static_cast<const T*>(b),
           write, static_cast<T*>(c));
  });
}

void launch_term(cuda::Stream stream, graph::DType dtype, const BroadcastTerm& t, const void* c,
                 Write write, void* y) {
  if (t.m * t.n == 0) return;
  cuda::dispatch_stored(dtype, [&]<class T>() {
    LAUNCH((term_kernel<T>), grid_over(t.m * t.n), stream, t, static_cast<const T*>(c), write,
           static_cast<T*>(y));
  });
}

}  // namespace sardonyx::ops::gemm
