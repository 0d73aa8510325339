// Arithmetic of integer elements, defined for all of them: sums and products wrap around, floats
// that become integers are cut off at the ends of the range (NaN is 0). C++ leaves both open.
// Sizes are another matter: ops/core/sizes.h.
#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

namespace sardonyx::ops {

// f(a, b), of integers computed unsigned (as wide as int at least: narrower ones would become int).
template <class T, class F>
T wrapped(T a, T b, F f) {
  if constexpr (std::is_integral_v<T>) {
    using Wide = std::common_type_t<std::make_unsigned_t<T>, unsigned>;
    return static_cast<T>(f(static_cast<Wide>(a), static_cast<Wide>(b)));
  } else {
    return f(a, b);
  }
}
template <class T>
T wrapped_sum(T a, T b) {
  return wrapped(a, b, [](auto x, auto y) { return x + y; });
}
template <class T>
T wrapped_difference(T a, T b) {
  return wrapped(a, b, [](auto x, auto y) { return x - y; });
}
template <class T>
T wrapped_product(T a, T b) {
  return wrapped(a, b, [](auto x, auto y) { return x * y; });
}

// -x; of an integer the difference from 0, which has no sign bit to turn.
template <class T>
T wrapped_negative(T x) {
  if constexpr (std::is_integral_v<T>) return wrapped_difference(T(0), x);
  return -x;
}

// A computed number as an element of type T; integers are truncated.
template <class T>
T element_of(double value) {
  if constexpr (std::is_integral_v<T>) {
    using Limits = std::numeric_limits<T>;
    if (std::isnan(value)) return 0;
    if (value >= std::ldexp(1.0, Limits::digits)) return Limits::max();
    if (value <= static_cast<double>(Limits::min())) return Limits::min();
  }
  return static_cast<T>(value);
}

}  // namespace sardonyx::ops
