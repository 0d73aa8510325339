// Softmax and its kin: a warp per group where its elements are neighbours, else a thread, so that
// neighbouring threads read neighbouring elements either way. Sums are kept in double.
#include <cmath>

#include "ops/core/cuda.cuh"
#include "ops/softmax/softmax_cuda.h"

namespace sardonyx::ops::softmax {

namespace {

// f(place of element 0, lane) for every group.
template <int kLanes, class F>
__device__ inline void for_groups(const Groups& groups, const F& f) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x / kLanes;
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (int64_t i = thread / kLanes; i < groups.outer * groups.inner; i += step) {
    const int64_t outer = i / groups.inner;
    f(outer * groups.length * groups.inner + (i - outer * groups.inner),
      static_cast<int>(thread % kLanes));
  }
}

// f(place) for the elements of this lane.
template <int kLanes, class F>
__device__ inline void for_lane(const Groups& groups, int64_t first, int lane, const F& f) {
  for (int64_t c = lane; c < groups.length; c += kLanes) f(first + c * groups.inner);
}

template <int kLanes, class T>
__device__ inline T sum_of(T value) {
  if constexpr (kLanes > 1) value = cuda::warp_sum(value);
  return value;
}

template <class T, int kLanes>
__global__ void forward(Which which, Groups groups, const T* x, T* y) {
  for_groups<kLanes>(groups, [&](int64_t first, int lane) {
    T max = -HUGE_VALF;
    for_lane<kLanes>(groups, first, lane, [&](int64_t at) { max = x[at] > max ? x[at] : max; });
    if constexpr (kLanes > 1) max = cuda::warp_max(max);
    double sum = 0;
    for_lane<kLanes>(groups, first, lane,
                     [&](int64_t at) { sum += static_cast<double>(std::exp(x[at] - max)); });
    sum = sum_of<kLanes>(sum);
    if (which == Which::kSoftmax) {
      for_lane<kLanes>(groups, first, lane, [&](int64_t at) {
        y[at] = static_cast<T>(static_cast<double>(std::exp(x[at] - max)) / sum);
      });
    } else {
      const double log_sum = std::log(sum);
      for_lane<kLanes>(groups, first, lane, [&](int64_t at) {
        y[at] = static_cast<T>(static_cast<double>(x[at]) - static_cast<double>(max) - log_sum);
      });
    }
  });
}

template <class T, int kLanes>
__global__ void backward(Which which, Groups groups, const T* y, const T* dy, T* dx) {
  for_groups<kLanes>(groups, [&](int64_t first, int lane) {
    double sum = 0;
    for_lane<kLanes>(groups, first, lane, [&](int64_t at) {
      const double g = static_cast<double>(dy[at]);
      sum += which == Which::kSoftmaxGrad ? static_cast<double>(y[at]) * g : g;
    });
    sum = sum_of<kLanes>(sum);
    for_lane<kLanes>(groups, first, lane, [&](int64_t at) {
      const double g = static_cast<double>(dy[at]);
      dx[at] = static_cast<T>(which == Which::kSoftmaxGrad
                                  ? static_cast<double>(y[at]) * (g - sum)
                                  : g - static_cast<double>(std::exp(y[at])) * sum);
    });
  });
}

template <class T, int kLanes>
void launch_lanes(cuda::Stream stream, Which which, const Groups& groups, const T* a, const T* b,
                  T* to) {
  const cuda::Grid grid = cuda::grid_over(groups.outer * groups.inner * kLanes);
  if (b == nullptr) {
    LAUNCH((forward<T, kLanes>), grid, stream, which, groups, a, to);
  } else {
    LAUNCH((backward<T, kLanes>), grid, stream, which, groups, a, b, to);
  }
}

}  // namespace

void launch(cuda::Stream stream, graph::DType dtype, Which which, const Groups& groups,
            const void* a, const void* b, void* to) {
  if (groups.outer * groups.length * groups.inner == 0) return;
  cuda::dispatch_float(dtype, [&]<class T>() {
    const auto launch_as = groups.inner == 1 ? launch_lanes<T, cuda::kWarp> : launch_lanes<T, 1>;
    launch_as(stream, which, groups, static_cast<const T*>(a), static_cast<const T*>(b),
              static_cast<T*>(to));
  });
}

}  // namespace sardonyx::ops::softmax
