// exp, tanh, erf and their kin in loops that the compiler turns into vectors. For *_isa.cc files
// only: everything lies in the namespace of the instruction set, and nothing here may need an
// inline function of the C++ library (layers.cmake says why).
//
// float: about 2 ulp, exact at 0 and at the ends, NaN stays NaN. double: the C library, one by one.
#pragma once

#include <cstdint>

namespace sardonyx::ops::SARDONYX_ISA {

// exp(x) = (1 + tail) low high
struct ExpParts {
  float tail, low, high;
};

[[gnu::always_inline]] inline ExpParts exp_parts(float x) {
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
  // 2^n in two factors, so that subnormal results and the overflow come out right.
  const int32_t whole = __builtin_bit_cast(int32_t, shifted) - 0x4b400000;
  const int32_t half = whole >> 1;
  return {p * r * r + r, __builtin_bit_cast(float, (half + 127) << 23),
          __builtin_bit_cast(float, (whole - half + 127) << 23)};
}

[[gnu::always_inline]] inline float exp_of(float x) {
  const ExpParts parts = exp_parts(x);
  return (parts.tail + 1.0f) * parts.low * parts.high;
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

// exp(x) - 1 for x <= 0; anything for others.
[[gnu::always_inline]] inline float expm1_below(float x) {
  const ExpParts parts = exp_parts(x);
  const float power = parts.low * parts.high;
  return parts.tail * power + (power - 1.0f);
}
[[gnu::always_inline]] inline double expm1_below(double x) { return __builtin_expm1(x); }

// exp(-scale z^2), as exact where z^2 is large: what rounding z^2 loses is put back. 0 <= z, and
// scale is 1/2 or 1.
[[gnu::always_inline]] inline float exp_of_minus_square(float z, float scale) {
  z = z > 16.0f ? 16.0f : z;  // zero from here on
  const float high =
      __builtin_bit_cast(float, __builtin_bit_cast(int32_t, z) & static_cast<int32_t>(0xfffff000));
  const float low = z - high;
  const float square = z * z;
  const float lost = (high * high - square) + low * (high + z);
  const float power = exp_of(-scale * square);
  return power - power * (scale * lost);
}
[[gnu::always_inline]] inline double exp_of_minus_square(double z, double scale) {
  return __builtin_exp(-scale * z * z);
}

// exp(z^2) erfc(z) for 0 <= z <= 10.3: t times a polynomial in t = 1 / (1 + 0.3 z), fitted to 2e-8.
// Beyond, where erfc itself is zero, anything finite.
[[gnu::always_inline]] inline float scaled_erfc_of(float z) {
  const float t = 1.0f / (1.0f + 0.3f * z);
  float p = -1.2954959e-1f;
  p = p * t + 4.8570323e-1f;
  p = p * t - 5.1259330e-1f;
  p = p * t + 5.4811669e-1f;
  p = p * t - 9.4955450e-2f;
  p = p * t + 2.1507217e-1f;
  p = p * t + 1.4829654e-1f;
  p = p * t + 1.7072215e-1f;
  p = p * t + 1.6918754e-1f;
  return p * t;
}

[[gnu::always_inline]] inline float erf_of(float x) {
  const float z = __builtin_fabsf(x);
  // Near zero 1 - erfc loses digits: a polynomial in x^2 there.
  const float s = x * x;
  float p = -6.3151252e-4f;
  p = p * s + 5.0510941e-3f;
  p = p * s - 2.6802547e-2f;
  p = p * s + 1.1282717e-1f;
  p = p * s - 3.7612572e-1f;
  p = p * s + 1.2837916e-1f;
  const float small = p * x + x;
  const float tail = exp_of_minus_square(z, 1.0f) * scaled_erfc_of(z);
  const float large = __builtin_copysignf(1.0f - tail, x);
  return z < 0.85f ? small : large;
}
[[gnu::always_inline]] inline double erf_of(double x) { return __builtin_erf(x); }

// The standard normal distribution at x. Both numbers keep their digits in the lower tail.
template <class T>
struct Normal {
  T below;    // probability of (-infinity, x]
  T density;  // exp(-x^2 / 2) / sqrt(2 pi)
};

[[gnu::always_inline]] inline Normal<float> normal_of(float x) {
  const float size = __builtin_fabsf(x);
  const float power = exp_of_minus_square(size, 0.5f);
  const float tail = 0.5f * power * scaled_erfc_of(size * 0.707106781f);
  return {x < 0.0f ? tail : 1.0f - tail, power * 0.398942280f};
}
[[gnu::always_inline]] inline Normal<double> normal_of(double x) {
  return {0.5 * __builtin_erfc(-x * 0.70710678118654752440),
          __builtin_exp(-0.5 * x * x) * 0.39894228040143267794};
}

}  // namespace sardonyx::ops::SARDONYX_ISA
