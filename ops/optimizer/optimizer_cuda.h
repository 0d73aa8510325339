// What optimizer.cu, adaptive.cu and gradients.cu launch. Private to ops/optimizer.
//
// Rates, scales and the counter of steps are read on the device: the host never waits for them. A
// result may overwrite the operand that it is the next value of.
#pragma once

#include <cstdint>

#include "graph/type.h"
#include "ops/core/cuda.h"

namespace sardonyx::ops::optimizer {

// What the updates share; n elements of `dtype`.
struct UpdateOperands {
  const void *w = nullptr, *g = nullptr;
  const double* lr = nullptr;
  const void* scale = nullptr;  // of dtype; NaN: nothing changes
  double lr_factor = 1, weight_decay = 0;
  double clip = 0;  // largest element of the scaled gradient; infinity: no clipping
};

struct SgdOperands {
  UpdateOperands update;
  const void* m = nullptr;        // null: there is none
  const int64_t* step = nullptr;  // 0: m is not read
  double momentum = 0, dampening = 0;
  int nesterov = 0;
  void *w_next = nullptr, *m_next = nullptr;
};
void launch_sgd(cuda::Stream stream, graph::DType dtype, int64_t n, const SgdOperands& operands);

struct AdamOperands {
  UpdateOperands update;
  const void *m = nullptr, *v = nullptr;
  const int64_t* step = nullptr;
  double beta1 = 0, beta2 = 0, eps = 0;
  int decoupled = 0;  // AdamW: weight decay is no part of the gradient
  void *w_next = nullptr, *m_next = nullptr, *v_next = nullptr;
};
void launch_adam(cuda::Stream stream, graph::DType dtype, int64_t n, const AdamOperands& operands);

// --- adaptive.cu

// The slots that are there, in the order of the operator's inputs.
struct AdaptiveOperands {
  UpdateOperands update;
  const void* slots[3] = {};
  double momentum = 0, beta1 = 0, beta2 = 0, eps = 0;
  void* w_next = nullptr;
  void* slots_next[3] = {};
};
enum class RmsPropSlots : uint8_t { kSquares, kMomentum, kMean, kMeanMomentum };
void launch_adagrad(cuda::Stream stream, graph::DType dtype, int64_t n,
                    const AdaptiveOperands& operands);
void launch_rms_prop(cuda::Stream stream, graph::DType dtype, int64_t n,
                     const AdaptiveOperands& operands, RmsPropSlots slots);
void launch_lion(cuda::Stream stream, graph::DType dtype, int64_t n,
                 const AdaptiveOperands& operands);

// --- optimizer.cu

// next = ema + weight * (w - ema); ema where scale is NaN.
void launch_ema(cuda::Stream stream, graph::DType dtype, int64_t n, double weight, const void* ema,
                const void* w, const void* scale, void* next);
// `dtype`: of scale.
void launch_advance(cuda::Stream stream, graph::DType dtype, const int64_t* step, const void* scale,
                    int64_t* next);

// --- gradients.cu

// y = a + b
void launch_accumulate(cuda::Stream stream, graph::DType dtype, int64_t n, const void* a,
                       const void* b, void* y);

// The squares of n elements in pieces: pieces_of(n) partial sums at `partials`.
int64_t pieces_of(int64_t n);
void launch_squares(cuda::Stream stream, graph::DType dtype, int64_t n, const void* x,
                    double* partials);
void launch_total(cuda::Stream stream, int64_t pieces, const double* partials, double* total);

struct GradScaleOperands {
  static constexpr int kMostNorms = 256;
  const void *weight = nullptr, *loss = nullptr;  // of dtype; loss may be null
  const double* norms[kMostNorms] = {};
  int norm_count = 0;
  int divide = 1;
  double clip_norm = 0;  // 0: none
};
// grad_norm may be null.
void launch_grad_scale(cuda::Stream stream, graph::DType dtype, const GradScaleOperands& operands,
                       void* scale, void* grad_norm);

}  // namespace sardonyx::ops::optimizer
