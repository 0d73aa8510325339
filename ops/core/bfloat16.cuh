// bfloat16 as device code stores it: numbers are computed in float and rounded once, when they are
// stored.
//
// A kernel `template <class T>` for all types that floats are stored in loads and computes as
// Computed<T> and stores T.
#pragma once

#include <cstdint>
#include <type_traits>

#include "ops/core/cuda.cuh"

namespace sardonyx::ops::cuda {

struct BFloat16 {
  uint16_t bits;

  BFloat16() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): y[i] = sum
  __device__ BFloat16(float number) : bits(bfloat16_bits(number)) {}
  static BFloat16 lowest() {
    BFloat16 result;
    result.bits = 0xff7f;
    return result;
  }
  __device__ operator float() const {  // NOLINT(google-explicit-constructor): likewise
    Word word = {};
    word.bits = static_cast<unsigned>(bits) << 16;
    return word.number;
  }

 private:
  union Word {
    float number;
    unsigned bits;
  };
};

template <class T>
using Computed = std::conditional_t<std::is_same_v<T, BFloat16>, float, T>;

// Calls f.template operator()<T>() for float, double and BFloat16.
template <class F>
void dispatch_stored(graph::DType dtype, const F& f) {
  if (dtype == graph::DType::kBFloat16) return f.template operator()<BFloat16>();
  dispatch_float(dtype, f);
}

}  // namespace sardonyx::ops::cuda
