// What stands between gradients and the update.
#include <cmath>
#include <limits>

#include "ops/core/cuda.cuh"
#include "ops/optimizer/optimizer_cuda.h"

namespace sardonyx::ops::optimizer {

namespace {

using cuda::for_elements;
using cuda::grid_over;
using cuda::kBlock;

// Elements that one block squares.
constexpr int64_t kPiece = 64 * kBlock;
// The scale of a step that isn't taken.
constexpr double kSkipped = std::numeric_limits<double>::quiet_NaN();

template <class T>
__global__ void accumulate_kernel(int64_t n, const T* a, const T* b, T* y) {
  for_elements(n, [&](int64_t i) { y[i] = a[i] + b[i]; });
}

template <class T>
__global__ void squares_kernel(int64_t n, const T* x, double* partials) {
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * kPiece;
  const int64_t end = begin + kPiece < n ? begin + kPiece : n;
  double sum = 0;
  for (int64_t i = begin + threadIdx.x; i < end; i += kBlock) {
    const auto value = static_cast<double>(x[i]);
    sum = std::fma(value, value, sum);
  }
  sum = cuda::block_sum(sum);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

// One block.
__global__ void total_kernel(int64_t pieces, const double* partials, double* total) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < pieces; i += kBlock) sum += partials[i];
  sum = cuda::block_sum(sum);
  if (threadIdx.x == 0) *total = sum;
}

template <class T>
__global__ void grad_scale_kernel(GradScaleOperands o, T* scale_out, T* norm_out) {
  if (threadIdx.x != 0) return;
  const double weight = static_cast<double>(*static_cast<const T*>(o.weight));
  double scale = o.divide == 0 ? 1.0 : weight > 0 ? 1 / weight : 0.0;
  double norm2 = 0;
  for (int i = 0; i < o.norm_count; ++i) norm2 += *o.norms[i];
  const double norm = std::sqrt(norm2) * scale;
  const T rounded = static_cast<T>(norm);
  // The constant is that of torch.nn.utils.clip_grad_norm_.
  const double shrink = o.clip_norm / (norm + 1e-6);
  if (o.clip_norm > 0 && shrink < 1.0) scale *= shrink;
  const T factor = static_cast<T>(scale);
  const bool finite = std::isfinite(weight) && std::isfinite(rounded) && std::isfinite(factor) &&
                      (o.loss == nullptr || std::isfinite(*static_cast<const T*>(o.loss)));
  *scale_out = finite ? factor : static_cast<T>(kSkipped);
  if (norm_out != nullptr) *norm_out = rounded;
}

}  // namespace

void launch_accumulate(cuda::Stream stream, graph::DType dtype, int64_t n, const void* a,
                       const void* b, void* y) {
  if (n == 0) return;
  cuda::dispatch_float(dtype, [&]<class T>() {
    LAUNCH((accumulate_kernel<T>), grid_over(n), stream, n, static_cast<const T*>(a),
           static_cast<const T*>(b), static_cast<T*>(y));
  });
}

int64_t pieces_of(int64_t n) { return (n + kPiece - 1) / kPiece; }

void launch_squares(cuda::Stream stream, graph::DType dtype, int64_t n, const void* x,
                    double* partials) {
  if (n == 0) return;
  cuda::dispatch_float(dtype, [&]<class T>() {
    LAUNCH((squares_kernel<T>), (cuda::Grid{static_cast<unsigned>(pieces_of(n))}), stream, n,
           static_cast<const T*>(x), partials);
  });
}

void launch_total(cuda::Stream stream, int64_t pieces, const double* partials, double* total) {
  LAUNCH(total_kernel, cuda::Grid{}, stream, pieces, partials, total);
}

void launch_grad_scale(cuda::Stream stream, graph::DType dtype, const GradScaleOperands& operands,
                       void* scale, void* grad_norm) {
  cuda::dispatch_float(dtype, [&]<class T>() {
    LAUNCH((grad_scale_kernel<T>), (cuda::Grid{1, 1, cuda::kWarp}), stream, operands,
           static_cast<T*>(scale), static_cast<T*>(grad_norm));
  });
}

}  // namespace sardonyx::ops::optimizer
