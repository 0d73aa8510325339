// The vector loops, compiled once per instruction set; arithmetic_cpu.cc picks a copy.
#include "ops/arithmetic/arithmetic.h"
#include "ops/core/vector_math_isa.h"

namespace sardonyx::ops::arithmetic::SARDONYX_ISA {

namespace {

using ops::SARDONYX_ISA::exp_of;

[[gnu::always_inline]] inline float abs_of(float x) { return __builtin_fabsf(x); }
[[gnu::always_inline]] inline double abs_of(double x) { return __builtin_fabs(x); }
[[gnu::always_inline]] inline float sqrt_of(float x) { return __builtin_sqrtf(x); }
[[gnu::always_inline]] inline double sqrt_of(double x) { return __builtin_sqrt(x); }
float log_of(float x) { return __builtin_logf(x); }
double log_of(double x) { return __builtin_log(x); }
float pow_of(float x, float e) { return __builtin_powf(x, e); }
double pow_of(double x, double e) { return __builtin_pow(x, e); }

// clang-format off
struct Neg { template <class T> static T of(T x) { return -x; } };
struct Abs { template <class T> static T of(T x) { return abs_of(x); } };
struct Sqrt { template <class T> static T of(T x) { return sqrt_of(x); } };
struct Reciprocal { template <class T> static T of(T x) { return T(1) / x; } };
struct Exp { template <class T> static T of(T x) { return exp_of(x); } };
struct Log { template <class T> static T of(T x) { return log_of(x); } };
struct Square { template <class T> static T of(T x) { return x * x; } };
struct Add { template <class T> static T of(T a, T b) { return a + b; } };
struct Sub { template <class T> static T of(T a, T b) { return a - b; } };
struct Mul { template <class T> static T of(T a, T b) { return a * b; } };
struct Div { template <class T> static T of(T a, T b) { return a / b; } };
struct Pow { template <class T> static T of(T a, T b) { return pow_of(a, b); } };
struct Max { template <class T> static T of(T a, T b) { return a > b || a != a ? a : b; } };
struct Min { template <class T> static T of(T a, T b) { return a < b || a != a ? a : b; } };
struct PRelu { template <class T> static T of(T x, T slope) {
  return x < T(0) ? slope * x : x; } };
struct AbsGrad { template <class T> static T of(T x, T dy) {
  const T below = x < T(0) ? -dy : T(0);
  return x > T(0) ? dy : below; } };
struct PowGradBase { template <class T> static T of(T x, T e, T dy) {
  return e == T(0) ? T(0) : dy * e * pow_of(x, e - T(1)); } };
struct PowGradExponent { template <class T> static T of(T x, T e, T dy) {
  return x == T(0) && e >= T(0) ? T(0) : dy * pow_of(x, e) * log_of(x); } };
struct PReluGrad { template <class T> static T of(T x, T slope, T dy) {
  return x > T(0) ? dy : slope * dy; } };
struct MaxGrad { template <class T> static T of(T dy, T x, T other) {
  const T alone = x > other || x != x ? dy : T(0);
  const bool tie = x == other || (x != x && other != other);
  return tie ? T(0.5) * dy : alone; } };
struct MinGrad { template <class T> static T of(T dy, T x, T other) {
  return MaxGrad::of(dy, -x, -other); } };
// clang-format on

template <class T, class F>
void unary(const T* x, T* y, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = F::template of<T>(x[i]);
}

template <class T, class F, int kA, int kB>
[[gnu::always_inline]] inline void row(const T* a, const T* b, T* y, int64_t cols) {
  const T a0 = a[0], b0 = b[0];  // what is broadcast is read once
#pragma GCC ivdep
  for (int64_t i = 0; i < cols; ++i) {
    y[i] = F::template of<T>(kA == 1 ? a[i] : a0, kB == 1 ? b[i] : b0);
  }
}

template <class T, class F, int kA, int kB>
void rows(const Block& block, const T* a, const T* b, T* y) {
  if (block.cols == 16) {  // a parameter against lanes: the row is one or a few vectors
    for (int64_t r = 0; r < block.rows; ++r) {
      row<T, F, kA, kB>(a + r * block.a_row, b + r * block.b_row, y + r * 16, 16);
    }
    return;
  }
  for (int64_t r = 0; r < block.rows; ++r) {
    row<T, F, kA, kB>(a + r * block.a_row, b + r * block.b_row, y + r * block.cols, block.cols);
  }
}

template <class T, class F>
void binary(const Block& block, const T* a, const T* b, T* y) {
  if (block.a_col == 1 && block.b_col == 1) return rows<T, F, 1, 1>(block, a, b, y);
  if (block.a_col == 1) return rows<T, F, 1, 0>(block, a, b, y);
  if (block.b_col == 1) return rows<T, F, 0, 1>(block, a, b, y);
  rows<T, F, 0, 0>(block, a, b, y);
}

template <class T, class F, int kA, int kB, int kC>
void rows_of_three(const Block& block, const T* a, const T* b, const T* c, T* y) {
  for (int64_t r = 0; r < block.rows; ++r) {
    const T a0 = a[0], b0 = b[0], c0 = c[0];
#pragma GCC ivdep
    for (int64_t i = 0; i < block.cols; ++i) {
      y[i] = F::template of<T>(kA == 1 ? a[i] : a0, kB == 1 ? b[i] : b0, kC == 1 ? c[i] : c0);
    }
    a += block.a_row;
    b += block.b_row;
    c += block.c_row;
    y += block.cols;
  }
}

template <class T, class F, int kA, int kB>
void ternary_by_c(const Block& block, const T* a, const T* b, const T* c, T* y) {
  if (block.c_col == 1) return rows_of_three<T, F, kA, kB, 1>(block, a, b, c, y);
  rows_of_three<T, F, kA, kB, 0>(block, a, b, c, y);
}

template <class T, class F>
void ternary(const Block& block, const T* a, const T* b, const T* c, T* y) {
  if (block.a_col == 1 && block.b_col == 1) return ternary_by_c<T, F, 1, 1>(block, a, b, c, y);
  if (block.a_col == 1) return ternary_by_c<T, F, 1, 0>(block, a, b, c, y);
  if (block.b_col == 1) return ternary_by_c<T, F, 0, 1>(block, a, b, c, y);
  ternary_by_c<T, F, 0, 0>(block, a, b, c, y);
}

template <class T>
void sum(const T* const* x, int64_t count, int64_t begin, int64_t end, T scale, T* y) {
  constexpr int64_t kBlock = 64;
  int64_t i = begin;
  for (; i + kBlock <= end; i += kBlock) {
    T total[kBlock];
    for (int64_t j = 0; j < kBlock; ++j) total[j] = x[0][i + j];
    for (int64_t k = 1; k < count; ++k) {
      const T* from = x[k] + i;
      for (int64_t j = 0; j < kBlock; ++j) total[j] += from[j];
    }
    for (int64_t j = 0; j < kBlock; ++j) y[i + j] = scale * total[j];
  }
  for (; i < end; ++i) {
    T total = x[0][i];
    for (int64_t k = 1; k < count; ++k) total += x[k][i];
    y[i] = scale * total;
  }
}

template <class T>
constexpr Loops<T> kLoops = {
    {unary<T, Neg>, unary<T, Abs>, unary<T, Sqrt>, unary<T, Reciprocal>, unary<T, Exp>,
     unary<T, Log>, unary<T, Square>},
    {binary<T, Add>, binary<T, Sub>, binary<T, Mul>, binary<T, Div>, binary<T, Pow>, binary<T, Max>,
     binary<T, Min>, binary<T, PRelu>, binary<T, AbsGrad>},
    {ternary<T, PowGradBase>, ternary<T, PowGradExponent>, ternary<T, PReluGrad>,
     ternary<T, MaxGrad>, ternary<T, MinGrad>},
    sum<T>,
};

}  // namespace

template <class T>
const Loops<T>& loops() {
  return kLoops<T>;
}
template const Loops<float>& loops<float>();
template const Loops<double>& loops<double>();

}  // namespace sardonyx::ops::arithmetic::SARDONYX_ISA
