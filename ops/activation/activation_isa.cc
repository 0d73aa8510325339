// The vector loops, compiled once per instruction set; activation_cpu.cc picks a copy. Comparisons
// are written so that NaN comes through.
#include "ops/activation/activation.h"
#include "ops/core/vector_math_isa.h"

namespace sardonyx::ops::activation::SARDONYX_ISA {

namespace {

using ops::SARDONYX_ISA::exp_of;
using ops::SARDONYX_ISA::sigmoid_of;
using ops::SARDONYX_ISA::tanh_of;

float expm1_of(float x) { return __builtin_expm1f(x); }
double expm1_of(double x) { return __builtin_expm1(x); }
float softplus_of(float x) {
  return (x > 0 ? x : 0) + __builtin_log1pf(__builtin_expf(-__builtin_fabsf(x)));
}
double softplus_of(double x) {
  return (x > 0 ? x : 0) + __builtin_log1p(__builtin_exp(-__builtin_fabs(x)));
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
  static T of(T x, T, T alpha, T) { return x > T(0) ? x : alpha * expm1_of(x); } };
template <class T> struct Softplus {
  static T of(T x, T, T, T) { return softplus_of(x); } };
template <class T> struct Clip {
  static T of(T x, T, T lo, T hi) { const T y = x < lo ? lo : x; return y > hi ? hi : y; } };
template <class T> struct ReluGrad {
  static T of(T y, T dy, T, T) { return y <= T(0) ? T(0) : dy; } };
template <class T> struct SigmoidGrad {
  static T of(T y, T dy, T, T) { return dy * (y * (T(1) - y)); } };
template <class T> struct TanhGrad {
  static T of(T y, T dy, T, T) { return dy * (T(1) - y * y); } };
template <class T> struct LeakyReluGrad {
  static T of(T x, T dy, T alpha, T) { return x > T(0) ? dy : alpha * dy; } };
template <class T> struct EluGrad {
  static T of(T x, T dy, T alpha, T) { return x > T(0) ? dy : dy * (alpha * exp_of(x)); } };
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

template <class T>
constexpr Loops<T> kLoops = {{
    unary<T, Relu<T>>,
    unary<T, Sigmoid<T>>,
    unary<T, Tanh<T>>,
    unary<T, LeakyRelu<T>>,
    unary<T, Elu<T>>,
    unary<T, Softplus<T>>,
    unary<T, Clip<T>>,
    binary<T, ReluGrad<T>>,
    binary<T, SigmoidGrad<T>>,
    binary<T, TanhGrad<T>>,
    binary<T, LeakyReluGrad<T>>,
    binary<T, EluGrad<T>>,
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
