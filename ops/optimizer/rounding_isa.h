// How the vector loops of the room round: sums by mul_add once, as in PyTorch on a CPU, all others
// twice. The compiler fuses nothing by itself here (ops/CMakeLists.txt): after 200 steps that would
// be 10 ulps. One copy per instruction set, in its namespace.
#pragma once

namespace sardonyx::ops::optimizer::SARDONYX_ISA {

// Sums of many numbers are added up in so many places, side by side.
inline constexpr int kPlaces = 16;

[[gnu::always_inline]] inline float root(float x) { return __builtin_sqrtf(x); }
[[gnu::always_inline]] inline double root(double x) { return __builtin_sqrt(x); }

// x * y + z, rounded once where the processor can.
#if defined(__FMA__)
[[gnu::always_inline]] inline float mul_add(float x, float y, float z) {
  return __builtin_fmaf(x, y, z);
}
[[gnu::always_inline]] inline double mul_add(double x, double y, double z) {
  return __builtin_fma(x, y, z);
}
#else
template <class T>
[[gnu::always_inline]] inline T mul_add(T x, T y, T z) {
  return x * y + z;
}
#endif

}  // namespace sardonyx::ops::optimizer::SARDONYX_ISA
