// The updates, rounded as optimizer_isa.cc rounds them: fma() where PyTorch's sums are rounded
// once, and nothing else is fused.
#include <cmath>

#include "ops/core/cuda.cuh"
#include "ops/optimizer/optimizer_cuda.h"

namespace sardonyx::ops::optimizer {

namespace {

using cuda::for_elements;
using cuda::grid_over;

template <class T>
__device__ inline T scale_of(const UpdateOperands& o) {
  return *static_cast<const T*>(o.scale);
}

// u = clip(g * scale) + weight_decay * w
template <class T>
__device__ inline T update_of(const UpdateOperands& o, T scale, T decay, T w, T g) {
  const T most = static_cast<T>(o.clip);
  T u = g * scale;
  u = u > most ? most : u;
  u = u < -most ? -most : u;
  return std::fma(decay, w, u);
}

// w' = w and so on, where a step is skipped.
template <class T>
__device__ inline void keep(int64_t n, const void* from, void* to) {
  if (to == nullptr || to == from) return;
  for_elements(n, [&](int64_t i) { static_cast<T*>(to)[i] = static_cast<const T*>(from)[i]; });
}

template <class T>
__global__ void sgd_kernel(int64_t n, SgdOperands o) {
  const T scale = scale_of<T>(o.update);
  const bool moves = o.m_next != nullptr && o.momentum != 0;
  if (scale != scale || !moves) keep<T>(n, o.m, o.m_next);
  if (scale != scale) return keep<T>(n, o.update.w, o.w_next);
  const T* w = static_cast<const T*>(o.update.w);
  const T* g = static_cast<const T*>(o.update.g);
  const T* m = static_cast<const T*>(o.m);
  T* w_next = static_cast<T*>(o.w_next);
  T* m_next = static_cast<T*>(o.m_next);
  const T lr = static_cast<T>(*o.update.lr * o.update.lr_factor);
  const T decay = static_cast<T>(o.update.weight_decay);
  const T momentum = static_cast<T>(o.momentum), fresh = static_cast<T>(1 - o.dampening);
  const bool first = moves && *o.step == 0;
  for_elements(n, [&](int64_t i) {
    T update = update_of(o.update, scale, decay, w[i], g[i]);
    if (moves) {
      const T velocity = first ? update : std::fma(fresh, update, momentum * m[i]);
      m_next[i] = velocity;
      update = o.nesterov != 0 ? std::fma(momentum, velocity, update) : velocity;
    }
    w_next[i] = std::fma(-lr, update, w[i]);
  });
}

// torch.lerp starts from the nearer end, so that a weight of 1 gives b exactly.
template <class T>
__device__ inline T lerp(T a, T b, T weight) {
  return weight < T(0.5) ? std::fma(weight, b - a, a) : std::fma(weight - T(1), b - a, b);
}

// Numbers that PyTorch keeps in Python are computed in double, once per block.
template <class T>
struct AdamStep {
  T kept, root_correction2, step_size;
};
template <class T>
__device__ inline AdamStep<T> adam_step(const AdamOperands& o) {
  const double lr = *o.update.lr * o.update.lr_factor;
  const double t = static_cast<double>(*o.step + 1);
  return {static_cast<T>(o.decoupled != 0 ? 1 - lr * o.update.weight_decay : 1.0),
          static_cast<T>(std::sqrt(1 - std::pow(o.beta2, t))),
          static_cast<T>(lr / (1 - std::pow(o.beta1, t)))};
}

template <class T>
__global__ void adam_kernel(int64_t n, AdamOperands o) {
  const T scale = scale_of<T>(o.update);
  if (scale != scale) {
    keep<T>(n, o.m, o.m_next);
    keep<T>(n, o.v, o.v_next);
    return keep<T>(n, o.update.w, o.w_next);
  }
  __shared__ AdamStep<T> step;
  if (threadIdx.x == 0) step = adam_step<T>(o);
  __syncthreads();
  const AdamStep<T> s = step;
  const T* w = static_cast<const T*>(o.update.w);
  const T* g = static_cast<const T*>(o.update.g);
  const T* m = static_cast<const T*>(o.m);
  const T* v = static_cast<const T*>(o.v);
  const T decay = static_cast<T>(o.decoupled != 0 ? 0.0 : o.update.weight_decay);
  const T fresh1 = static_cast<T>(1 - o.beta1), fresh2 = static_cast<T>(1 - o.beta2);
  const T beta2 = static_cast<T>(o.beta2), eps = static_cast<T>(o.eps);
  for_elements(n, [&](int64_t i) {
    const T update = update_of(o.update, scale, decay, w[i], g[i]);
    const T first = lerp(m[i], update, fresh1);
    const T second = std::fma(fresh2 * update, update, beta2 * v[i]);
    const T divisor = std::sqrt(second) / s.root_correction2 + eps;
    const T moved = s.kept * w[i] - s.step_size * first / divisor;
    static_cast<T*>(o.m_next)[i] = first;
    static_cast<T*>(o.v_next)[i] = second;
    static_cast<T*>(o.w_next)[i] = moved;
  });
}

template <class T>
__global__ void ema_kernel(int64_t n, T weight, const T* ema, const T* w, const T* scale, T* next) {
  if (*scale != *scale) return keep<T>(n, ema, next);
  for_elements(n, [&](int64_t i) { next[i] = lerp(ema[i], w[i], weight); });
}

template <class T>
__global__ void advance_kernel(const int64_t* step, const T* scale, int64_t* next) {
  if (threadIdx.x == 0) *next = *step + (*scale != *scale ? 0 : 1);
}

}  // namespace

void launch_sgd(cuda::Stream stream, graph::DType dtype, int64_t n, const SgdOperands& operands) {
  if (n == 0) return;
  cuda::dispatch_float(
      dtype, [&]<class T>() { LAUNCH((sgd_kernel<T>), grid_over(n), stream, n, operands); });
}

void launch_adam(cuda::Stream stream, graph::DType dtype, int64_t n, const AdamOperands& operands) {
  if (n == 0) return;
  cuda::dispatch_float(
      dtype, [&]<class T>() { LAUNCH((adam_kernel<T>), grid_over(n), stream, n, operands); });
}

void launch_ema(cuda::Stream stream, graph::DType dtype, int64_t n, double weight, const void* ema,
                const void* w, const void* scale, void* next) {
  if (n == 0) return;
  cuda::dispatch_float(dtype, [&]<class T>() {
    LAUNCH((ema_kernel<T>), grid_over(n), stream, n, weight, static_cast<const T*>(ema),
           static_cast<const T*>(w), static_cast<const T*>(scale), static_cast<T*>(next));
  });
}

void launch_advance(cuda::Stream stream, graph::DType dtype, const int64_t* step, const void* scale,
                    int64_t* next) {
  cuda::dispatch_float(dtype, [&]<class T>() {
    LAUNCH((advance_kernel<T>), (cuda::Grid{1, 1, cuda::kWarp}), stream, step,
           static_cast<const T*>(scale), next);
  });
}

}  // namespace sardonyx::ops::optimizer
