// exp, tanh and the logistic function in loops that the compiler turns into vectors. For *_isa.cc
// files only: everything lies in the namespace of the instruction set, and nothing here may need an
// inline function of the C++ library (layers.cmake says why).
//
// float: about 2 ulp, exact at 0 and at the ends, NaN stays NaN. double: the C library, one by one.
#pragma once

#include <cstdint>

namespace sardonyx::ops::SARDONYX_ISA {

[[gnu::always_inline]] inline float exp_of(float x) {
  // Beyond these the result is infinite or rounds to zero.
  x = x > 90.0f ? 90.0f : x;
  x = x < -105.0f ? -105.0f : x;
  // n = round(x / ln 2): adding 1.5 * 2^23 leaves the integer in the low bits.
  const float shifted = x * 1.44269504f + 12582912.0f;
  const float n = shifted - 12582912.0f;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  // 2^n in two factors, so that subnormal results and the overflow come out right.
  const int32_t whole = __builtin_bit_cast(int32_t, shifted) - 0x4b400000;
  const int32_t half = whole >> 1;
  const float low = __builtin_bit_cast(float, (half + 127) << 23);
  const float high = __builtin_bit_cast(float, (whole - half + 127) << 23);
  return p * low * high;
}
[[gnu::always_inline]] inline double exp_of(double x) { return __builtin_exp(x); }

[[gnu::always_inline]] inline float sigmoid_of(float x) { return 1.0f / (1.0f + exp_of(-x)); }
[[gnu::always_inline]] inline double sigmoid_of(double x) { return 1.0 / (1.0 + exp_of(-x)); }

[[gnu::always_inline]] inline float tanh_of(float x) {
  const float size = __builtin_fabsf(x);
  // Near zero the formula with exp loses digits: a polynomial in x^2 there.
  const float s = x * x;
  float p = -5.70498872745e-3f;
  p = p * s + 2.06390887954e-2f;
  p = p * s - 5.37397155531e-2f;
  p = p * s + 1.33314422036e-1f;
  p = p * s - 3.33332819422e-1f;
  const float small = p * s * x + x;
  const float large = __builtin_copysignf(1.0f - 2.0f / (exp_of(2.0f * size) + 1.0f), x);
  return size < 0.625f ? small : large;
}
[[gnu::always_inline]] inline double tanh_of(double x) { return __builtin_tanh(x); }

}  // namespace sardonyx::ops::SARDONYX_ISA
