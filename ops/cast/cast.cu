// Conversions as graph/tensor_cast.cc defines them: floats are cut off and saturate when they
// become integers, NaN is 0, integers wrap around, bool is x != 0.
//
// A kernel per type of x; the type of y is the same for all threads, so it is asked on the way.
#include <limits>
#include <type_traits>

#include "ops/cast/cast_cuda.h"
#include "ops/core/bfloat16.cuh"
#include "ops/core/walk.cuh"

namespace sardonyx::ops::cast {

namespace {

using cuda::BFloat16;
using graph::DType;

// Elements are bytes 0 and 1 when written, 0 and others when read.
struct Bool {
  uint8_t byte;
};

// 2^n.
template <class From>
constexpr From power_of_two(int n) {
  From result = 1;
  for (int i = 0; i < n; ++i) result *= 2;
  return result;
}

// Computed by the host compiler: device code can't call constexpr functions of the library.
template <class To, class From>
struct Limits {
  static constexpr To kMax = std::numeric_limits<To>::max(), kMin = std::numeric_limits<To>::min();
  static constexpr From kAbove = power_of_two<From>(std::numeric_limits<To>::digits);
};

template <class To, class From>
__device__ inline To convert(From value) {
  if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    using Of = Limits<To, From>;
    if (value != value) return 0;
    if (value >= Of::kAbove) return Of::kMax;
    if (value <= static_cast<From>(Of::kMin)) return Of::kMin;
  }
  return static_cast<To>(value);
}

// Float whose last bit is set where the number lies between two floats: so bfloat16 is rounded
// once.
__device__ inline float round_to_odd(double value) {
  union {
    float number;
    unsigned bits;
  } rounded = {static_cast<float>(value)};
  const double back = rounded.number;
  if (back == value || back != back) return rounded.number;
  // Towards zero first, then odd.
  if ((back < 0 ? -back : back) > (value < 0 ? -value : value)) --rounded.bits;
  rounded.bits |= 1u;
  return rounded.number;
}

template <class T>
__device__ inline cuda::Computed<T> number(T x) {
  return x;
}
__device__ inline uint8_t number(Bool x) { return x.byte != 0 ? 1 : 0; }

template <class To, class From>
__device__ inline void store(void* y, int64_t i, From value) {
  static_cast<To*>(y)[i] = convert<To>(value);
}

template <class From>
__device__ inline void store_as(DType to, void* y, int64_t i, From value) {
  switch (to) {
    case DType::kFloat32:
      return store<float>(y, i, value);
    case DType::kFloat64:
      return store<double>(y, i, value);
    case DType::kBFloat16:
      static_cast<BFloat16*>(y)[i] = round_to_odd(static_cast<double>(value));
      return;
    case DType::kInt8:
      return store<int8_t>(y, i, value);
    case DType::kInt16:
      return store<int16_t>(y, i, value);
    case DType::kInt32:
      return store<int32_t>(y, i, value);
    case DType::kInt64:
      return store<int64_t>(y, i, value);
    case DType::kUint8:
      return store<uint8_t>(y, i, value);
    case DType::kUint16:
      return store<uint16_t>(y, i, value);
    case DType::kUint32:
      return store<uint32_t>(y, i, value);
    case DType::kUint64:
      return store<uint64_t>(y, i, value);
    default:
      static_cast<uint8_t*>(y)[i] = value != From(0) ? 1 : 0;
  }
}

template <class From>
__global__ void cast_kernel(int64_t n, DType to, const From* x, void* y) {
  cuda::for_elements(n, [&](int64_t i) { store_as(to, y, i, number(x[i])); });
}

// Between float and bfloat16, as weights and gradients of a training are cast.
template <class To>
struct Rounded {
  __device__ To operator()(float x) const { return x; }
};

template <class From>
void launch_from(cuda::Stream stream, DType to, int64_t n, const void* x, void* y) {
  LAUNCH((cast_kernel<From>), cuda::grid_over(n), stream, n, to, static_cast<const From*>(x), y);
}

}  // namespace

void launch(cuda::Stream stream, DType from, DType to, int64_t n, const void* x, void* y) {
  if (n == 0) return;
  if (from == DType::kFloat32 && to == DType::kBFloat16) {
    return cuda::launch_dense(stream, n, Rounded<BFloat16>(), static_cast<BFloat16*>(y),
                              static_cast<const float*>(x));
  }
  if (from == DType::kBFloat16 && to == DType::kFloat32) {
    return cuda::launch_dense(stream, n, Rounded<float>(), static_cast<float*>(y),
                              static_cast<const BFloat16*>(x));
  }
  switch (from) {
    case DType::kFloat32:
      return launch_from<float>(stream, to, n, x, y);
    case DType::kBFloat16:
      return launch_from<BFloat16>(stream, to, n, x, y);
    case DType::kFloat64:
      return launch_from<double>(stream, to, n, x, y);
    case DType::kInt8:
      return launch_from<int8_t>(stream, to, n, x, y);
    case DType::kInt16:
      return launch_from<int16_t>(stream, to, n, x, y);
    case DType::kInt32:
      return launch_from<int32_t>(stream, to, n, x, y);
    case DType::kInt64:
      return launch_from<int64_t>(stream, to, n, x, y);
    case DType::kUint8:
      return launch_from<uint8_t>(stream, to, n, x, y);
    case DType::kUint16:
      return launch_from<uint16_t>(stream, to, n, x, y);
    case DType::kUint32:
      return launch_from<uint32_t>(stream, to, n, x, y);
    case DType::kUint64:
      return launch_from<uint64_t>(stream, to, n, x, y);
    default:
      return launch_from<Bool>(stream, to, n, x, y);
  }
}

}  // namespace sardonyx::ops::cast
