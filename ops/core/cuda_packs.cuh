// Element by element over a dense array with numbers per channel, 16 bytes at a time where memory
// allows it.
#pragma once

#include "ops/core/cuda.cuh"

namespace sardonyx::ops::cuda {

template <class T, int kWidth>
struct alignas(sizeof(T) * kWidth) Pack {
  T at[kWidth];
};

template <int kWidth, class T>
__device__ inline Pack<T, kWidth> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T, kWidth>*>(from);
}
template <class T, int kWidth>
__device__ inline void store_pack(const Pack<T, kWidth>& pack, T* to) {
  *reinterpret_cast<Pack<T, kWidth>*>(to) = pack;
}

// Body: `template <int kWidth> __device__ void run(int64_t first, int64_t channel, int step)`; the
// pack's element j is of channel + j * step.
template <int kWidth, class Index, class Body>
__global__ void pack_kernel(int64_t packs, Index inner, Index channels, Body body) {
  for_elements(packs, [&](int64_t pack) {
    const Index first = static_cast<Index>(pack) * kWidth;
    const Index channel = first / inner % channels;
    body.template run<kWidth>(static_cast<int64_t>(first), static_cast<int64_t>(channel),
                              inner == 1 ? 1 : 0);
  });
}

inline bool aligned_for_packs(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
}

// Runs the body over n elements, element i of channel i / inner % channels. `aligned`: all its
// pointers are aligned_for_packs (null ones are).
template <class T, class Body>
void launch_packs(Stream stream, int64_t n, int64_t inner, int64_t channels, bool aligned,
                  const Body& body) {
  constexpr int kMost = 16 / static_cast<int>(sizeof(T));
  if (n == 0) return;
  const bool packed = aligned && (inner == 1 ? channels : inner) % kMost == 0;
  const auto with = [&]<class Index>() {
    if (packed) {
      LAUNCH((pack_kernel<kMost, Index, Body>), grid_over(n / kMost), stream, n / kMost, inner,
             channels, body);
    } else {
      LAUNCH((pack_kernel<1, Index, Body>), grid_over(n), stream, n, inner, channels, body);
    }
  };
  if (n <= INT32_MAX) return with.template operator()<uint32_t>();
  with.template operator()<int64_t>();
}

}  // namespace sardonyx::ops::cuda
