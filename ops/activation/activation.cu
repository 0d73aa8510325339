// The loops of the room on a CUDA device: activation_formulas.h, element by element.
#include "ops/activation/activation_cuda.h"
#include "ops/core/activation_formulas.h"
#include "ops/core/bfloat16.cuh"
#include "ops/core/walk.cuh"

namespace sardonyx::ops::activation {

namespace {

template <class Formula, class T>
struct Applied {
  using N = cuda::Computed<T>;
  N p, q;
  const T *p_at, *q_at;
  __device__ N operator()(N a, N b = N(0)) const {
    return Formula::of(a, b, p_at == nullptr ? p : N(*p_at), q_at == nullptr ? q : N(*q_at));
  }
};

template <class Formula, class T>
Applied<Formula, T> applied(const Launch& launch) {
  using N = cuda::Computed<T>;
  return {static_cast<N>(launch.numbers.p), static_cast<N>(launch.numbers.q),
          static_cast<const T*>(launch.p_at), static_cast<const T*>(launch.q_at)};
}

template <class T, class Formula>
void unary(cuda::Stream stream, const Launch& launch) {
  cuda::launch_dense(stream, launch.n, applied<Formula, T>(launch), static_cast<T*>(launch.y),
                     static_cast<const T*>(launch.a));
}

template <class T, class Formula>
void binary(cuda::Stream stream, const Launch& launch) {
  cuda::launch_dense(stream, launch.n, applied<Formula, T>(launch), static_cast<T*>(launch.y),
                     static_cast<const T*>(launch.a), static_cast<const T*>(launch.b));
}

// In the order of Loop.
template <class T>
constexpr void (*kLaunchers[])(cuda::Stream, const Launch&) = {
    unary<T, formulas::Relu>,
    unary<T, formulas::Sigmoid>,
    unary<T, formulas::Tanh>,
    unary<T, formulas::LeakyRelu>,
    unary<T, formulas::Elu>,
    unary<T, formulas::Celu>,
    unary<T, formulas::Softplus>,
    unary<T, formulas::Softsign>,
    unary<T, formulas::Erf>,
    unary<T, formulas::Gelu>,
    unary<T, formulas::Swish>,
    unary<T, formulas::Mish>,
    unary<T, formulas::HardSwish>,
    unary<T, formulas::HardSigmoid>,
    unary<T, formulas::ThresholdedRelu>,
    unary<T, formulas::Shrink>,
    unary<T, formulas::Clip>,
    binary<T, formulas::SwiGlu>,
    binary<T, formulas::ReluGrad>,
    binary<T, formulas::SigmoidGrad>,
    binary<T, formulas::TanhGrad>,
    binary<T, formulas::LeakyReluGrad>,
    binary<T, formulas::EluGrad>,
    binary<T, formulas::CeluGrad>,
    binary<T, formulas::SoftsignGrad>,
    binary<T, formulas::ErfGrad>,
    binary<T, formulas::GeluGrad>,
    binary<T, formulas::SwishGrad>,
    binary<T, formulas::MishGrad>,
    binary<T, formulas::HardSwishGrad>,
    binary<T, formulas::HardSigmoidGrad>,
    binary<T, formulas::ThresholdedReluGrad>,
    binary<T, formulas::ShrinkGrad>,
    binary<T, formulas::ClipGrad>,
};

template <class T>
struct IntegerClip {
  const T *lo, *hi;
  __device__ T operator()(T x) const {
    const T y = lo != nullptr && x < *lo ? *lo : x;
    return hi != nullptr && y > *hi ? *hi : y;
  }
};

template <class T>
void clip_integers(cuda::Stream stream, int64_t n, const void* lo, const void* hi, const void* x,
                   void* y) {
  const IntegerClip<T> clip = {static_cast<const T*>(lo), static_cast<const T*>(hi)};
  cuda::launch_dense(stream, n, clip, static_cast<T*>(y), static_cast<const T*>(x));
}

}  // namespace

void launch(cuda::Stream stream, const Launch& launch) {
  cuda::dispatch_stored(launch.dtype, [&]<class T>() {
    static_assert(sizeof(kLaunchers<T>) / sizeof(kLaunchers<T>[0]) ==
                  static_cast<int>(Loop::kCount));
    kLaunchers<T>[static_cast<int>(launch.loop)](stream, launch);
  });
}

void launch_integer_clip(cuda::Stream stream, graph::DType dtype, int64_t n, const void* lo,
                         const void* hi, const void* x, void* y) {
  if (dtype == graph::DType::kInt32) return clip_integers<int32_t>(stream, n, lo, hi, x, y);
  clip_integers<int64_t>(stream, n, lo, hi, x, y);
}

}  // namespace sardonyx::ops::activation
