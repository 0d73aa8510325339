// What batch_norm.cu launches. Private to ops/batch_norm.
//
// Numbers per channel are worked out in double, the elements in their own type (bfloat16 in float),
// and no product is fused with a sum: the sign of what a gradient is masked by must be that of the
// y that was written.
#pragma once

#include "ops/core/cuda_sums.h"

namespace sardonyx::ops::batch_norm {

// A float or double operand of a few numbers. Null: left out.
struct Numbers {
  const void* data = nullptr;
  graph::DType dtype = graph::DType::kFloat32;
};

// (x - mean) / sqrt(var + epsilon) * scale + bias. Without bias: none.
struct AffineOperands {
  Numbers scale, bias, mean, var;
  double epsilon = 0;
};

// What the kernels of one node share: elements of `dtype` in `cells`, dense, with the channels in
// front of the cells of an image or behind them.
struct Work {
  cuda::Stream stream = nullptr;
  graph::DType dtype = graph::DType::kFloat32;
  cuda::ChannelCells cells;
  void* workspace = nullptr;

  static size_t workspace_bytes(const cuda::ChannelCells& cells);
};

// A gradient as it is read: dy + second, and 0 where y isn't above 0. y is given, or what the
// affine makes of x.
struct IncomingOperands {
  const void *dy = nullptr, *second = nullptr, *y = nullptr;
};

// sums: double [3][channels]
void launch_sums(const Work& work, const void* x, double* sums);
void launch_moments(cuda::Stream stream, int64_t channels, const double* sums, double* mean,
                    double* var, double* count);

enum class Then : uint8_t { kNothing, kRelu };
void launch_apply(const Work& work, const AffineOperands& affine, const void* x, const void* addend,
                  Then then, void* y);

// dz may be null.
void launch_grad_sums(const Work& work, const AffineOperands& affine, const IncomingOperands& dy,
                      const void* x, double* dbias, double* dscale, void* dz);

// dx = a * dy - ((x - mean) * k + c). Without x: a * dy. sums may be null.
struct GradDataOperands {
  const void* x = nullptr;
  Numbers dbias, dscale, count;
};
void launch_grad_data(const Work& work, const AffineOperands& affine, const IncomingOperands& dy,
                      const GradDataOperands& through, void* dx, void* sums);

// next = momentum * old + (1 - momentum) * batch, of count / (count - 1) times the batch's where
// `stretch` says so.
enum class Stretch : uint8_t { kNone, kSample };
struct RunningOperands {
  Numbers old, batch, count;
  double momentum = 0;
  Stretch stretch = Stretch::kNone;
};
void launch_running(cuda::Stream stream, graph::DType dtype, int64_t n,
                    const RunningOperands& operands, void* next);
void launch_commit(cuda::Stream stream, graph::DType dtype, int64_t n, const void* old,
                   const void* pending, Numbers scale, Numbers replicas, void* next);

}  // namespace sardonyx::ops::batch_norm
