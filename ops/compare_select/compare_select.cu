// Comparisons and selection on a CUDA device; one kernel per element type.
#include "ops/compare_select/compare_select_cuda.h"
#include "ops/core/cuda_bytes.cuh"
#include "ops/core/walk.cuh"

namespace sardonyx::ops::compare_select {

namespace {

using graph::DType;

template <class T>
struct Tested {
  Test test;
  __device__ uint8_t operator()(T a, T b) const {
    switch (test) {
      case Test::kEqual:
        return a == b;
      case Test::kLess:
        return a < b;
      case Test::kGreater:
        return a > b;
      case Test::kLessOrEqual:
        return a <= b;
      case Test::kGreaterOrEqual:
        return a >= b;
      case Test::kAnd:
        return a != T(0) && b != T(0);
      case Test::kOr:
        return a != T(0) || b != T(0);
      case Test::kXor:
        break;
    }
    return (a != T(0)) != (b != T(0));
  }
};

struct Not {
  __device__ uint8_t operator()(uint8_t x) const { return x == 0; }
};

template <class T>
struct Where {
  __device__ T operator()(uint8_t condition, T x, T y) const { return condition != 0 ? x : y; }
};

template <class F>
void with_operand(DType dtype, const F& f) {
  switch (dtype) {
    case DType::kInt32:
      return f.template operator()<int32_t>();
    case DType::kInt64:
      return f.template operator()<int64_t>();
    case DType::kUint8:
    case DType::kBool:
      return f.template operator()<uint8_t>();
    default:
      return cuda::dispatch_float(dtype, f);
  }
}

}  // namespace

void launch_test(cuda::Stream stream, DType dtype, Test test, const cuda::Walk<2>& walk,
                 const void* a, const void* b, void* y) {
  with_operand(dtype, [&]<class T>() {
    cuda::launch_map(stream, walk, Tested<T>{test}, static_cast<uint8_t*>(y),
                     static_cast<const T*>(a), static_cast<const T*>(b));
  });
}

void launch_not(cuda::Stream stream, int64_t n, const void* x, void* y) {
  cuda::launch_dense(stream, n, Not(), static_cast<uint8_t*>(y), static_cast<const uint8_t*>(x));
}

void launch_where(cuda::Stream stream, int bytes, const cuda::Walk<3>& walk, const void* condition,
                  const void* x, const void* y, void* out) {
  const auto with = [&]<class T>() {
    cuda::launch_map(stream, walk, Where<T>(), static_cast<T*>(out),
                     static_cast<const uint8_t*>(condition), static_cast<const T*>(x),
                     static_cast<const T*>(y));
  };
  cuda::dispatch_bytes(bytes, with);
}

}  // namespace sardonyx::ops::compare_select
