// Elements that are read and written together, 16 bytes at a time where memory allows it.
#pragma once

#include "ops/core/cuda.cuh"

namespace sardonyx::ops::cuda {

// Elements that move together.
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

inline bool aligned_for_packs(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
}

}  // namespace sardonyx::ops::cuda
