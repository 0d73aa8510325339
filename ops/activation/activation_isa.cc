// The vector loops, compiled once per instruction set; activation_cpu.cc picks a copy. Comparisons
// are written so that NaN comes through.
#include "ops/activation/activation.h"
#include "ops/core/vector_math_isa.h"

namespace sardonyx::ops::activation::SARDONYX_ISA {

namespace {

using ops::SARDONYX_ISA::erf_of;
using ops::SARDONYX_ISA::exp_of;
using ops::SARDONYX_ISA::exp_of_minus_square;
using ops::SARDONYX_ISA::expm1_below;
using ops::SARDONYX_ISA::Normal;
using ops::SARDONYX_ISA::normal_of;
using ops::SARDONYX_ISA::sigmoid_of;
using ops::SARDONYX_ISA::tanh_of;

float abs_of(float x) { return __builtin_fabsf(x); }
double abs_of(double x) { return __builtin_fabs(x); }
float softplus_of(float x) {
  return (x > 0 ? x : 0) + __builtin_log1pf(__builtin_expf(-__builtin_fabsf(x)));
}
double softplus_of(double x) {
  return (x > 0 ? x : 0) + __builtin_log1p(__builtin_exp(-__builtin_fabs(x)));
}

// a b, and 0 where b is: what an infinite x times a vanished slope means.
template <class T>
[[gnu::always_inline]] inline T vanishing(T a, T b) {
  return b == T(0) ? T(0) : a * b;
}

// 2 sqrt(2 / pi) (x + 0.044715 x^3): Gelu by tanh is x times the sigmoid of this. And its slope.
template <class T>
[[gnu::always_inline]] inline T gelu_argument(T x) {
  return x * (T(1.5957691216057308) + T(0.07135481627260025) * x * x);
}
template <class T>
[[gnu::always_inline]] inline T gelu_argument_slope(T x) {
  return T(1.5957691216057308) + T(0.21406444881780076) * x * x;
}

// e = exp(x), from which tanh(softplus(x)) = n / (n + 2) with n = e (e + 2); x is cut off where
// that is 1.
template <class T>
[[gnu::always_inline]] inline T mish_power(T x) {
  return exp_of(x > T(20) ? T(20) : x);
}

// clang-format off
template <class T> struct Relu {
  static T of(T x, T, T, T) { return x < T(0) ? T(0) : x; } };
template <class T> struct Sigmoid {
  static T of(T x, T, T, T) { return sigmoid_of(x); } };
template <class T> struct Tanh {
  static T of(T x, T, T, T) { return tanh_of(x); } };
template <class T> struct LeakyRelu {
  static T of(T x, T, T alpha, T) { return x < T(0) ? alpha * x : x; } };
template <class T> struct Elu {
  static T of(T x, T, T alpha, T gamma) {
    return gamma * (x > T(0) ? x : alpha * expm1_below(x)); } };
template <class T> struct Celu {
  static T of(T x, T, T alpha, T) { return x > T(0) ? x : alpha * expm1_below(x / alpha); } };
template <class T> struct Softplus {
  static T of(T x, T, T, T) { return softplus_of(x); } };
template <class T> struct Softsign {
  static T of(T x, T, T, T) { return x / (T(1) + abs_of(x)); } };
template <class T> struct Erf {
  static T of(T x, T, T, T) { return erf_of(x); } };
template <class T> struct Gelu {
  static T of(T x, T, T, T) { return x * normal_of(x).below; } };
template <class T> struct GeluTanh {
  static T of(T x, T, T, T) { return x * sigmoid_of(gelu_argument(x)); } };
template <class T> struct Swish {
  static T of(T x, T, T alpha, T) { return x * sigmoid_of(alpha * x); } };
template <class T> struct Mish {
  static T of(T x, T, T, T) {
    const T e = mish_power(x), n = e * (e + T(2));
    return x * (n / (n + T(2))); } };
template <class T> struct HardSwish {
  static T of(T x, T, T, T) {
    const T inside = x * (x * T(1.0 / 6) + T(0.5));
    const T above = x < T(-3) ? T(0) : inside;
    return x > T(3) ? x : above; } };
template <class T> struct HardSigmoid {
  static T of(T x, T, T alpha, T beta) {
    const T y = alpha * x + beta, above = y < T(0) ? T(0) : y;
    return above > T(1) ? T(1) : above; } };
template <class T> struct ThresholdedRelu {
  static T of(T x, T, T alpha, T) { return x <= alpha ? T(0) : x; } };
template <class T> struct Shrink {
  static T of(T x, T, T lambd, T bias) {
    const T inside = x != x ? x : T(0), above = x > lambd ? x - bias : inside;
    return x < -lambd ? x + bias : above; } };
template <class T> struct Clip {
  static T of(T x, T, T lo, T hi) { const T y = x < lo ? lo : x; return y > hi ? hi : y; } };
template <class T> struct SwiGlu {
  static T of(T a, T b, T alpha, T) { return a * sigmoid_of(alpha * a) * b; } };

template <class T> struct ReluGrad {
  static T of(T y, T dy, T, T) { return y <= T(0) ? T(0) : dy; } };
template <class T> struct SigmoidGrad {
  static T of(T y, T dy, T, T) { return dy * (y * (T(1) - y)); } };
template <class T> struct TanhGrad {
  static T of(T y, T dy, T, T) { return dy * (T(1) - y * y); } };
template <class T> struct LeakyReluGrad {
  static T of(T x, T dy, T alpha, T) { return x > T(0) ? dy : alpha * dy; } };
template <class T> struct EluGrad {
  static T of(T x, T dy, T alpha, T gamma) {
    return dy * (gamma * (x > T(0) ? T(1) : alpha * exp_of(x))); } };
template <class T> struct CeluGrad {
  static T of(T x, T dy, T alpha, T) { return x > T(0) ? dy : dy * exp_of(x / alpha); } };
template <class T> struct SoftsignGrad {
  static T of(T x, T dy, T, T) { const T d = T(1) / (T(1) + abs_of(x)); return dy * (d * d); } };
template <class T> struct ErfGrad {
  static T of(T x, T dy, T, T) {
    return dy * (T(1.1283791670955126) * exp_of_minus_square(abs_of(x), T(1))); } };
template <class T> struct GeluGrad {
  static T of(T x, T dy, T, T) {
    const Normal<T> normal = normal_of(x);
    return dy * (normal.below + vanishing(x, normal.density)); } };
template <class T> struct GeluTanhGrad {
  static T of(T x, T dy, T, T) {
    const T s = sigmoid_of(gelu_argument(x));
    return dy * (s + vanishing(x * gelu_argument_slope(x), s * (T(1) - s))); } };
template <class T> struct SwishGrad {
  static T of(T x, T dy, T alpha, T) {
    const T s = sigmoid_of(alpha * x);
    return dy * (s + vanishing(alpha * x, s * (T(1) - s))); } };
template <class T> struct MishGrad {
  static T of(T x, T dy, T, T) {
    const T e = mish_power(x), n = e * (e + T(2)), d = T(1) / (n + T(2));
    const T bend = vanishing(x, T(4) * (e * d) * ((e + T(1)) * d));
    return dy * (x > T(20) ? T(1) : n * d + bend); } };
template <class T> struct HardSwishGrad {
  static T of(T x, T dy, T, T) {
    const T inside = dy * (x * T(1.0 / 3) + T(0.5));
    const T above = x <= T(-3) ? T(0) : inside;
    return x >= T(3) ? dy : above; } };
template <class T> struct HardSigmoidGrad {
  static T of(T y, T dy, T alpha, T) {
    const T above = y <= T(0) ? T(0) : alpha * dy;
    return y >= T(1) ? T(0) : above; } };
template <class T> struct ThresholdedReluGrad {
  static T of(T x, T dy, T alpha, T) { return x <= alpha ? T(0) : dy; } };
template <class T> struct ShrinkGrad {
  static T of(T x, T dy, T lambd, T) {
    const T below = x <= lambd ? T(0) : dy;
    return x >= -lambd ? below : dy; } };
template <class T> struct ClipGrad {
  static T of(T x, T dy, T lo, T hi) {
    const T above = x < lo ? T(0) : dy;
    return x > hi ? T(0) : above; } };
// clang-format on

template <class T, class F>
void unary(const T* a, const T*, T* y, int64_t n, T p, T q) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = F::of(a[i], T(0), p, q);
}

template <class T, class F>
void binary(const T* a, const T* b, T* y, int64_t n, T p, T q) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = F::of(a[i], b[i], p, q);
}

// One of two loops, by p.
template <class T, LoopFunction<T> kZero, LoopFunction<T> kOther>
void either(const T* a, const T* b, T* y, int64_t n, T p, T q) {
  (p == T(0) ? kZero : kOther)(a, b, y, n, p, q);
}

template <class T>
constexpr Loops<T> kLoops = {{
    unary<T, Relu<T>>,
    unary<T, Sigmoid<T>>,
    unary<T, Tanh<T>>,
    unary<T, LeakyRelu<T>>,
    unary<T, Elu<T>>,
    unary<T, Celu<T>>,
    unary<T, Softplus<T>>,
    unary<T, Softsign<T>>,
    unary<T, Erf<T>>,
    either<T, unary<T, Gelu<T>>, unary<T, GeluTanh<T>>>,
    unary<T, Swish<T>>,
    unary<T, Mish<T>>,
    unary<T, HardSwish<T>>,
    unary<T, HardSigmoid<T>>,
    unary<T, ThresholdedRelu<T>>,
    unary<T, Shrink<T>>,
    unary<T, Clip<T>>,
    binary<T, SwiGlu<T>>,
    binary<T, ReluGrad<T>>,
    binary<T, SigmoidGrad<T>>,
    binary<T, TanhGrad<T>>,
    binary<T, LeakyReluGrad<T>>,
    binary<T, EluGrad<T>>,
    binary<T, CeluGrad<T>>,
    binary<T, SoftsignGrad<T>>,
    binary<T, ErfGrad<T>>,
    either<T, binary<T, GeluGrad<T>>, binary<T, GeluTanhGrad<T>>>,
    binary<T, SwishGrad<T>>,
    binary<T, MishGrad<T>>,
    binary<T, HardSwishGrad<T>>,
    binary<T, HardSigmoidGrad<T>>,
    binary<T, ThresholdedReluGrad<T>>,
    binary<T, ShrinkGrad<T>>,
    binary<T, ClipGrad<T>>,
}};

}  // namespace

template <class T>
const Loops<T>& loops() {
  return kLoops<T>;
}
template const Loops<float>& loops<float>();
template const Loops<double>& loops<double>();

}  // namespace sardonyx::ops::activation::SARDONYX_ISA
