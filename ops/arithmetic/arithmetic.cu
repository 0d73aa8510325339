// Arithmetic on a CUDA device. Integers wrap around: they are computed as unsigned numbers.
#include <cmath>
#include <type_traits>

#include "ops/arithmetic/arithmetic_cuda.h"
#include "ops/core/bfloat16.cuh"
#include "ops/core/walk.cuh"

namespace sardonyx::ops::arithmetic {

namespace {

using cuda::Computed;
using graph::DType;

// What sums and products of T are computed in.
template <class T, bool kWhole = std::is_integral_v<T>>
struct Wrapping {
  using Type = T;
};
template <class T>
struct Wrapping<T, true> {
  using Type = std::make_unsigned_t<T>;
};
template <class T>
using C = typename Wrapping<T>::Type;

// clang-format off
template <class T> struct Neg { __device__ T operator()(T x) const {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(C<T>(0) - C<T>(x));
  return -x; } };
template <class T> struct Abs { __device__ T operator()(T x) const {
  if constexpr (std::is_integral_v<T>) return x < T(0) ? Neg<T>()(x) : x;
  return std::abs(x); } };
template <class T> struct Sqrt { __device__ T operator()(T x) const { return std::sqrt(x); } };
template <class T> struct Reciprocal { __device__ T operator()(T x) const { return T(1) / x; } };
template <class T> struct Exp { __device__ T operator()(T x) const { return std::exp(x); } };
template <class T> struct Log { __device__ T operator()(T x) const { return std::log(x); } };
template <class T> struct Square { __device__ T operator()(T x) const { return x * x; } };

template <class T> struct Add { __device__ T operator()(T a, T b) const {
  return static_cast<T>(C<T>(a) + C<T>(b)); } };
template <class T> struct Sub { __device__ T operator()(T a, T b) const {
  return static_cast<T>(C<T>(a) - C<T>(b)); } };
template <class T> struct Mul { __device__ T operator()(T a, T b) const {
  return static_cast<T>(C<T>(a) * C<T>(b)); } };
template <class T> struct Div { __device__ T operator()(T a, T b) const { return a / b; } };
template <class T> struct Pow { __device__ T operator()(T x, T e) const {
  return e == T(2) ? x * x : std::pow(x, e); } };
template <class T> struct PRelu { __device__ T operator()(T x, T slope) const {
  return x < T(0) ? slope * x : x; } };
template <class T> struct AbsGrad { __device__ T operator()(T x, T dy) const {
  return x > T(0) ? dy : x < T(0) ? -dy : T(0); } };

template <class T> struct PowGradBase { __device__ T operator()(T x, T e, T dy) const {
  return e == T(0) ? T(0) : dy * e * std::pow(x, e - T(1)); } };
template <class T> struct PowGradExponent { __device__ T operator()(T x, T e, T dy) const {
  return x == T(0) && e >= T(0) ? T(0) : dy * std::pow(x, e) * std::log(x); } };
template <class T> struct PReluGrad { __device__ T operator()(T x, T slope, T dy) const {
  return x > T(0) ? dy : slope * dy; } };
// clang-format on

template <class F>
void with_number(DType dtype, const F& f) {
  if (dtype == DType::kInt32) return f.template operator()<int32_t>();
  if (dtype == DType::kInt64) return f.template operator()<int64_t>();
  cuda::dispatch_stored(dtype, f);
}

// F: one of the functions above, in what elements of T are computed in.
template <class T, class F>
void unary(cuda::Stream stream, const F& f, int64_t n, const void* x, void* y) {
  cuda::launch_dense(stream, n, f, static_cast<T*>(y), static_cast<const T*>(x));
}

template <class T, class F>
void binary(cuda::Stream stream, const F& f, const cuda::Walk<2>& walk, const void* a,
            const void* b, void* y) {
  cuda::launch_map(stream, walk, f, static_cast<T*>(y), static_cast<const T*>(a),
                   static_cast<const T*>(b));
}

template <class T, class F>
void ternary(cuda::Stream stream, const F& f, const cuda::Walk<3>& walk, const void* a,
             const void* b, const void* c, void* y) {
  cuda::launch_map(stream, walk, f, static_cast<T*>(y), static_cast<const T*>(a),
                   static_cast<const T*>(b), static_cast<const T*>(c));
}

// --- Any number of operands

template <int kOperands>
__device__ inline void locate_all(const cuda::Walk<kOperands>& walk, int64_t step,
                                  int64_t (&places)[kOperands]) {
  if (!walk.dense) return cuda::locate(walk, step, places);
  for (int64_t& place : places) place = step;
}

template <class T>
__device__ inline Computed<T> operand(const Operands& x, const int64_t* places, int i) {
  return static_cast<const T*>(x.of[i])[places[i]];
}

// NaN wins.
template <class T>
__device__ inline bool beats(Fold fold, T a, T b) {
  return a != a || (fold == Fold::kMax ? a > b : a < b);
}

template <class T>
__device__ inline Computed<T> extremum(Fold fold, const Operands& x, const int64_t* places,
                                       int first) {
  Computed<T> best = operand<T>(x, places, first);
  for (int i = first + 1; i < x.count; ++i) {
    const Computed<T> other = operand<T>(x, places, i);
    if (beats(fold, other, best)) best = other;
  }
  return best;
}

template <class T>
__device__ inline Computed<T> sum(double scale, const Operands& x, const int64_t* places) {
  using Sum = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
  Sum total = 0;
  for (int i = 0; i < x.count; ++i) total += static_cast<Sum>(operand<T>(x, places, i));
  if constexpr (!std::is_integral_v<T>) total *= scale;
  return static_cast<Computed<T>>(total);
}

// Of two operands, as most folds are.
template <class T>
struct Pair {
  Fold fold;
  double scale;
  __device__ T operator()(T a, T b) const {
    if (fold != Fold::kSum) return beats(fold, b, a) ? b : a;
    const T total = Add<T>()(a, b);
    if constexpr (std::is_integral_v<T>) return total;
    return scale == 1 ? total : static_cast<T>(static_cast<double>(total) * scale);
  }
};

template <class T>
__global__ void fold_kernel(cuda::Walk<kFoldOperands> walk, Fold fold, double scale, Operands x,
                            T* y) {
  cuda::for_elements(walk.count, [&](int64_t i) {
    int64_t places[kFoldOperands];
    locate_all(walk, i, places);
    y[i] = fold == Fold::kSum ? sum<T>(scale, x, places) : extremum<T>(fold, x, places, 0);
  });
}

// dy is shared evenly by those that are the extremum.
template <class T>
__global__ void extremum_gradient(cuda::Walk<kFoldOperands> walk, Fold fold, Operands x, T* dx) {
  cuda::for_elements(walk.count, [&](int64_t step) {
    int64_t places[kFoldOperands];
    locate_all(walk, step, places);
    const Computed<T> best = extremum<T>(fold, x, places, 1);
    const auto wins = [&](int i) {
      const Computed<T> v = operand<T>(x, places, i);
      return v == best || (v != v && best != best);
    };
    int count = 0;
    for (int i = 1; i < x.count; ++i) count += wins(i) ? 1 : 0;
    dx[step] = wins(1) ? operand<T>(x, places, 0) / static_cast<Computed<T>>(count) : 0;
  });
}

}  // namespace

void launch_unary(cuda::Stream stream, DType dtype, Unary op, int64_t n, const void* x, void* y) {
  if (op == Unary::kNeg || op == Unary::kAbs) {
    return with_number(dtype, [&]<class T>() {
      if (op == Unary::kNeg) return unary<T>(stream, Neg<Computed<T>>(), n, x, y);
      unary<T>(stream, Abs<Computed<T>>(), n, x, y);
    });
  }
  cuda::dispatch_stored(dtype, [&]<class T>() {
    using N = Computed<T>;
    switch (op) {
      case Unary::kSqrt:
        return unary<T>(stream, Sqrt<N>(), n, x, y);
      case Unary::kReciprocal:
        return unary<T>(stream, Reciprocal<N>(), n, x, y);
      case Unary::kExp:
        return unary<T>(stream, Exp<N>(), n, x, y);
      case Unary::kLog:
        return unary<T>(stream, Log<N>(), n, x, y);
      default:
        return unary<T>(stream, Square<N>(), n, x, y);
    }
  });
}

void launch_binary(cuda::Stream stream, DType dtype, Binary op, const cuda::Walk<2>& walk,
                   const void* a, const void* b, void* y) {
  if (op == Binary::kAdd || op == Binary::kSub || op == Binary::kMul) {
    return with_number(dtype, [&]<class T>() {
      using N = Computed<T>;
      if (op == Binary::kAdd) return binary<T>(stream, Add<N>(), walk, a, b, y);
      if (op == Binary::kSub) return binary<T>(stream, Sub<N>(), walk, a, b, y);
      binary<T>(stream, Mul<N>(), walk, a, b, y);
    });
  }
  cuda::dispatch_stored(dtype, [&]<class T>() {
    using N = Computed<T>;
    switch (op) {
      case Binary::kDiv:
        return binary<T>(stream, Div<N>(), walk, a, b, y);
      case Binary::kPow:
        return binary<T>(stream, Pow<N>(), walk, a, b, y);
      case Binary::kPRelu:
        return binary<T>(stream, PRelu<N>(), walk, a, b, y);
      default:
        return binary<T>(stream, AbsGrad<N>(), walk, a, b, y);
    }
  });
}

void launch_ternary(cuda::Stream stream, DType dtype, Ternary op, const cuda::Walk<3>& walk,
                    const void* a, const void* b, const void* c, void* y) {
  cuda::dispatch_stored(dtype, [&]<class T>() {
    using N = Computed<T>;
    switch (op) {
      case Ternary::kPowGradBase:
        return ternary<T>(stream, PowGradBase<N>(), walk, a, b, c, y);
      case Ternary::kPowGradExponent:
        return ternary<T>(stream, PowGradExponent<N>(), walk, a, b, c, y);
      default:
        return ternary<T>(stream, PReluGrad<N>(), walk, a, b, c, y);
    }
  });
}

void launch_pair(cuda::Stream stream, DType dtype, Fold fold, double scale,
                 const cuda::Walk<2>& walk, const void* a, const void* b, void* y) {
  with_number(dtype, [&]<class T>() {
    binary<T>(stream, Pair<Computed<T>>{fold, scale}, walk, a, b, y);
  });
}

void launch_fold(cuda::Stream stream, DType dtype, Fold fold, double scale,
                 const cuda::Walk<kFoldOperands>& walk, const Operands& x, void* y) {
  if (walk.count == 0) return;
  with_number(dtype, [&]<class T>() {
    LAUNCH((fold_kernel<T>), cuda::grid_over(walk.count), stream, walk, fold, scale, x,
           static_cast<T*>(y));
  });
}

void launch_extremum_gradient(cuda::Stream stream, DType dtype, Fold fold,
                              const cuda::Walk<kFoldOperands>& walk, const Operands& operands,
                              void* dx) {
  if (walk.count == 0) return;
  cuda::dispatch_stored(dtype, [&]<class T>() {
    LAUNCH((extremum_gradient<T>), cuda::grid_over(walk.count), stream, walk, fold, operands,
           static_cast<T*>(dx));
  });
}

}  // namespace sardonyx::ops::arithmetic
