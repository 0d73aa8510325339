// One kernel for all functions: they are seldom called.
#include <cmath>

#include "ops/core/walk.cuh"
#include "ops/elementary/elementary_cuda.h"

namespace sardonyx::ops::elementary {

namespace {

template <class T>
struct Value {
  Name name;
  __device__ T operator()(T x) const {
    switch (name) {
      case Name::kSin:
        return std::sin(x);
      case Name::kCos:
        return std::cos(x);
      case Name::kTan:
        return std::tan(x);
      case Name::kAsin:
        return std::asin(x);
      case Name::kAcos:
        return std::acos(x);
      case Name::kAtan:
        return std::atan(x);
      case Name::kSinh:
        return std::sinh(x);
      case Name::kCosh:
        return std::cosh(x);
      case Name::kAsinh:
        return std::asinh(x);
      case Name::kAcosh:
        return std::acosh(x);
      case Name::kAtanh:
        return std::atanh(x);
      case Name::kFloor:
        return std::floor(x);
      case Name::kCeil:
        return std::ceil(x);
      case Name::kRound:
        return std::nearbyint(x);
      default:
        return x > T(0) ? T(1) : x < T(0) ? T(-1) : x;
    }
  }
};

// Of those that have one.
template <class T>
__device__ inline T slope_of(Name name, T x) {
  switch (name) {
    case Name::kSin:
      return std::cos(x);
    case Name::kCos:
      return -std::sin(x);
    case Name::kTan: {
      const T y = std::tan(x);
      return T(1) + y * y;
    }
    case Name::kAsin:
      return T(1) / std::sqrt((T(1) - x) * (T(1) + x));
    case Name::kAcos:
      return T(-1) / std::sqrt((T(1) - x) * (T(1) + x));
    case Name::kAtan:
      return T(1) / (T(1) + x * x);
    case Name::kSinh:
      return std::cosh(x);
    case Name::kCosh:
      return std::sinh(x);
    case Name::kAsinh:
      return T(1) / std::hypot(T(1), x);
    case Name::kAcosh:
      return T(1) / (std::sqrt(x - T(1)) * std::sqrt(x + T(1)));
    default:
      return T(1) / ((T(1) - x) * (T(1) + x));
  }
}

template <class T>
struct Slope {
  Name name;
  __device__ T operator()(T x, T dy) const { return dy * slope_of(name, x); }
};

}  // namespace

void launch_function(cuda::Stream stream, graph::DType dtype, Name name, int64_t n, const void* x,
                     void* y) {
  cuda::dispatch_float(dtype, [&]<class T>() {
    cuda::launch_dense(stream, n, Value<T>{name}, static_cast<T*>(y), static_cast<const T*>(x));
  });
}

void launch_slope(cuda::Stream stream, graph::DType dtype, Name name, int64_t n, const void* x,
                  const void* dy, void* dx) {
  cuda::dispatch_float(dtype, [&]<class T>() {
    cuda::launch_dense(stream, n, Slope<T>{name}, static_cast<T*>(dx), static_cast<const T*>(x),
                       static_cast<const T*>(dy));
  });
}

}  // namespace sardonyx::ops::elementary
