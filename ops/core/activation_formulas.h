// Activation functions and their slopes, with what holds at kinks: f(a, b; p, q), where a gradient
// has dy as b (ops/activation/activation.h, Loop). In double the reference of the operators and of
// recurrent layers, in float and double what CUDA kernels compute. (The vector loops of the CPU
// have their own, made of polynomials.)
//
// NaN stays NaN: comparisons are written so that it comes through. Nothing here cancels where the
// result is small: float stays within a few roundings of double.
#pragma once

#include <cmath>

#include "ops/core/host_device.h"

namespace sardonyx::ops::formulas {

template <class T>
HOST_DEVICE T clipped(T x, T lo, T hi) {
  const T y = x < lo ? lo : x;
  return y > hi ? hi : y;
}
template <class T>
HOST_DEVICE T sigmoid(T x) {
  return T(1) / (T(1) + std::exp(-x));
}
template <class T>
HOST_DEVICE T softplus(T x) {
  return (x > T(0) ? x : T(0)) + std::log1p(std::exp(-std::abs(x)));
}
// a b, and 0 where b is: what an infinite x times a vanished slope means.
template <class T>
HOST_DEVICE T vanishing(T a, T b) {
  return b == T(0) ? T(0) : a * b;
}

// exp(-scale x^2) and the part of the standard normal distribution that lies below x. In double:
// far out a rounding of x^2 is many of the result.
template <class T>
HOST_DEVICE T exp_of_minus_square(T x, double scale) {
  return static_cast<T>(std::exp(-scale * static_cast<double>(x) * static_cast<double>(x)));
}
template <class T>
HOST_DEVICE T normal_below(T x) {
  return static_cast<T>(0.5 * std::erfc(static_cast<double>(x) * -0.70710678118654752440));
}
// (1 + tanh(u)) / 2 is the sigmoid of 2 u, which doesn't cancel below zero; u = sqrt(2 / pi)
// (x + 0.044715 x^3).
template <class T>
HOST_DEVICE T gelu_sigmoid(T x) {
  return sigmoid(T(1.59576912160573071) * (x + T(0.044715) * x * x * x));
}
template <class T>
HOST_DEVICE T gelu_slope(T x) {
  const T density = exp_of_minus_square(x, 0.5) * T(0.39894228040143267794);
  return normal_below(x) + vanishing(x, density);
}
template <class T>
HOST_DEVICE T gelu_tanh_slope(T x) {
  const T s = gelu_sigmoid(x);
  const T bend = T(1.59576912160573071) * (T(1) + T(0.134145) * x * x);
  return s + vanishing(x * bend, s * (T(1) - s));
}
template <class T>
HOST_DEVICE T swish_slope(T x, T alpha) {
  const T s = sigmoid(alpha * x);
  return s + vanishing(alpha * x, s * (T(1) - s));
}
template <class T>
HOST_DEVICE T mish_slope(T x) {
  const T t = std::tanh(softplus(x));
  return t + vanishing(x, (T(1) - t * t) * sigmoid(x));
}

// clang-format off
struct Relu { template <class T> HOST_DEVICE static T of(T x, T, T, T) {
  return x < T(0) ? T(0) : x; } };
struct Sigmoid { template <class T> HOST_DEVICE static T of(T x, T, T, T) {
  return sigmoid(x); } };
struct Tanh { template <class T> HOST_DEVICE static T of(T x, T, T, T) {
  return std::tanh(x); } };
struct LeakyRelu { template <class T> HOST_DEVICE static T of(T x, T, T alpha, T) {
  return x < T(0) ? alpha * x : x; } };
struct Elu { template <class T> HOST_DEVICE static T of(T x, T, T alpha, T gamma) {
  return gamma * (x > T(0) ? x : alpha * std::expm1(x)); } };
struct Celu { template <class T> HOST_DEVICE static T of(T x, T, T alpha, T) {
  return x > T(0) ? x : alpha * std::expm1(x / alpha); } };
struct Softplus { template <class T> HOST_DEVICE static T of(T x, T, T, T) {
  return softplus(x); } };
struct Softsign { template <class T> HOST_DEVICE static T of(T x, T, T, T) {
  return x / (T(1) + std::abs(x)); } };
struct Erf { template <class T> HOST_DEVICE static T of(T x, T, T, T) {
  return std::erf(x); } };
struct Gelu { template <class T> HOST_DEVICE static T of(T x, T, T by_tanh, T) {
  return x * (by_tanh == T(0) ? normal_below(x) : gelu_sigmoid(x)); } };
struct Swish { template <class T> HOST_DEVICE static T of(T x, T, T alpha, T) {
  return x * sigmoid(alpha * x); } };
struct Mish { template <class T> HOST_DEVICE static T of(T x, T, T, T) {
  return x * std::tanh(softplus(x)); } };
struct HardSwish { template <class T> HOST_DEVICE static T of(T x, T, T, T) {
  return x < T(-3) ? T(0) : x > T(3) ? x : x * (x + T(3)) / T(6); } };
struct HardSigmoid { template <class T> HOST_DEVICE static T of(T x, T, T alpha, T beta) {
  return clipped(alpha * x + beta, T(0), T(1)); } };
struct ThresholdedRelu { template <class T> HOST_DEVICE static T of(T x, T, T alpha, T) {
  return x <= alpha ? T(0) : x; } };
struct Shrink { template <class T> HOST_DEVICE static T of(T x, T, T lambd, T bias) {
  return x < -lambd ? x + bias : x > lambd ? x - bias : x != x ? x : T(0); } };
struct Clip { template <class T> HOST_DEVICE static T of(T x, T, T lo, T hi) {
  return clipped(x, lo, hi); } };
struct SwiGlu { template <class T> HOST_DEVICE static T of(T a, T b, T alpha, T) {
  return a * sigmoid(alpha * a) * b; } };

struct ReluGrad { template <class T> HOST_DEVICE static T of(T y, T dy, T, T) {
  return y <= T(0) ? T(0) : dy; } };
struct SigmoidGrad { template <class T> HOST_DEVICE static T of(T y, T dy, T, T) {
  return dy * y * (T(1) - y); } };
struct TanhGrad { template <class T> HOST_DEVICE static T of(T y, T dy, T, T) {
  return dy * ((T(1) - y) * (T(1) + y)); } };
struct LeakyReluGrad { template <class T> HOST_DEVICE static T of(T x, T dy, T alpha, T) {
  return x > T(0) ? dy : alpha * dy; } };
struct EluGrad { template <class T> HOST_DEVICE static T of(T x, T dy, T alpha, T gamma) {
  return dy * gamma * (x > T(0) ? T(1) : alpha * std::exp(x)); } };
struct CeluGrad { template <class T> HOST_DEVICE static T of(T x, T dy, T alpha, T) {
  return x > T(0) ? dy : dy * std::exp(x / alpha); } };
struct SoftsignGrad { template <class T> HOST_DEVICE static T of(T x, T dy, T, T) {
  const T d = T(1) / (T(1) + std::abs(x)); return dy * (d * d); } };
struct ErfGrad { template <class T> HOST_DEVICE static T of(T x, T dy, T, T) {
  return dy * (T(1.12837916709551257390) * exp_of_minus_square(x, 1.0)); } };
struct GeluGrad { template <class T> HOST_DEVICE static T of(T x, T dy, T by_tanh, T) {
  return dy * (by_tanh == T(0) ? gelu_slope(x) : gelu_tanh_slope(x)); } };
struct SwishGrad { template <class T> HOST_DEVICE static T of(T x, T dy, T alpha, T) {
  return dy * swish_slope(x, alpha); } };
struct MishGrad { template <class T> HOST_DEVICE static T of(T x, T dy, T, T) {
  return dy * mish_slope(x); } };
struct HardSwishGrad { template <class T> HOST_DEVICE static T of(T x, T dy, T, T) {
  return dy * (x <= T(-3) ? T(0) : x >= T(3) ? T(1) : x / T(3) + T(0.5)); } };
struct HardSigmoidGrad { template <class T> HOST_DEVICE static T of(T y, T dy, T alpha, T) {
  return y <= T(0) || y >= T(1) ? T(0) : alpha * dy; } };
struct ThresholdedReluGrad { template <class T> HOST_DEVICE static T of(T x, T dy, T alpha, T) {
  return x <= alpha ? T(0) : dy; } };
struct ShrinkGrad { template <class T> HOST_DEVICE static T of(T x, T dy, T lambd, T) {
  return x >= -lambd && x <= lambd ? T(0) : dy; } };
struct ClipGrad { template <class T> HOST_DEVICE static T of(T x, T dy, T lo, T hi) {
  return x < lo || x > hi ? T(0) : dy; } };
// clang-format on

}  // namespace sardonyx::ops::formulas
