// The vectors of the instruction set that a *_isa.cc file is compiled for, and the parts of the
// kernel table. Include this from *_isa.cc files only: everything lies in the namespace of the
// instruction set, and nothing here may need an inline function from outside (the linker would keep
// one copy for all processors).
//
// A block of 16 lanes is `kPieces` vectors; kernels take the piece as their outermost loop.
#pragma once

#include <immintrin.h>

#include "ops/core/lanes.h"

#if defined(__AVX512F__)
#define SARDONYX_VECTOR_BYTES 64
#define SARDONYX_STREAM _mm512_stream_ps
#define SARDONYX_VECTOR_REGISTERS 32
#elif defined(__AVX2__)
#define SARDONYX_VECTOR_BYTES 32
#define SARDONYX_STREAM _mm256_stream_ps
#define SARDONYX_VECTOR_REGISTERS 16
#else
#define SARDONYX_VECTOR_BYTES 16
#define SARDONYX_STREAM _mm_stream_ps
#define SARDONYX_VECTOR_REGISTERS 16
#endif

namespace sardonyx::ops::lanes::SARDONYX_ISA {

inline constexpr int kVectorBytes = SARDONYX_VECTOR_BYTES;
inline constexpr int kRegisters = SARDONYX_VECTOR_REGISTERS;
// Accumulators of a register block: the rest holds inputs and one broadcast weight.
inline constexpr int kAccumulators = kRegisters == 32 ? 25 : 12;

#undef SARDONYX_VECTOR_BYTES
#undef SARDONYX_VECTOR_REGISTERS

template <typename T>
struct VectorTypes;
template <>
struct VectorTypes<float> {
  typedef float Value __attribute__((vector_size(kVectorBytes)));
  typedef float Unaligned __attribute__((vector_size(kVectorBytes), aligned(4), may_alias));
  typedef int32_t Int __attribute__((vector_size(kVectorBytes)));
};
template <>
struct VectorTypes<double> {
  typedef double Value __attribute__((vector_size(kVectorBytes)));
  typedef double Unaligned __attribute__((vector_size(kVectorBytes), aligned(8), may_alias));
  typedef int64_t Int __attribute__((vector_size(kVectorBytes)));
};

template <typename T>
using Vec = typename VectorTypes<T>::Value;
template <typename T>
using IntVec = typename VectorTypes<T>::Int;
template <typename T>
inline constexpr int kWidth = kVectorBytes / static_cast<int>(sizeof(T));
template <typename T>
inline constexpr int kPieces = kLanes / kWidth<T>;

template <typename T>
[[gnu::always_inline]] inline Vec<T> load(const T* from) {
  return *reinterpret_cast<const typename VectorTypes<T>::Unaligned*>(from);
}

template <typename T>
[[gnu::always_inline]] inline void store(T* to, Vec<T> value) {
  *reinterpret_cast<typename VectorTypes<T>::Unaligned*>(to) = value;
}

// Past the caches, where the line isn't read soon; `to` is aligned to a vector.
[[gnu::always_inline]] inline void stream(float* to, Vec<float> value) {
  SARDONYX_STREAM(to, value);
}
#undef SARDONYX_STREAM

// What was streamed is there before whatever this thread stores next: no lock and no atomic sees to
// that.
[[gnu::always_inline]] inline void end_stream() { __builtin_ia32_sfence(); }

template <typename T>
[[gnu::always_inline]] inline Vec<T> broadcast(T value) {
  return value - Vec<T>{};  // exact also for -0, unlike value + 0
}

// NaN stays NaN.
template <typename T>
[[gnu::always_inline]] inline Vec<T> relu(Vec<T> value) {
  return value < Vec<T>{} ? Vec<T>{} : value;
}

// Zero where the Relu that gave `output` closed, else value.
template <typename T>
[[gnu::always_inline]] inline Vec<T> relu_mask(Vec<T> value, const T* output) {
  return load(output) <= Vec<T>{} ? Vec<T>{} : value;
}

// All bits set in lanes < valid.
template <typename T>
[[gnu::always_inline]] inline IntVec<T> valid_lanes(int valid) {
  IntVec<T> index;
  for (int i = 0; i < kWidth<T>; ++i) index[i] = i;
  return index < valid - IntVec<T>{};
}

// out[i] = sum of the lanes of from[i], i < kWidth: halves, then quarters, ... of pairs are added.
template <typename T>
[[gnu::always_inline]] inline Vec<T> sum_of_each(const T* from);

// Turns kWidth vectors of kWidth lanes around.
template <typename T>
[[gnu::always_inline]] inline void transpose(Vec<T> (&rows)[kWidth<T>]);

namespace detail {

template <int... I>
struct Lanes {};
template <int N, int... I>
struct CountLanes : CountLanes<N - 1, N - 1, I...> {};
template <int... I>
struct CountLanes<0, I...> {
  using type = Lanes<I...>;
};

// Source lane of lane i of `merge`: in each block of 2D lanes the first D come from a, the others
// from b; kHigh takes the upper D lanes of the source's block, else the lower D.
constexpr int source_lane(int i, int d, bool high, int width) {
  const int within = i % (2 * d);
  return i - within + within % d + (high ? d : 0) + (within < d ? 0 : width);
}

template <typename T, int D, bool kHigh, int... I>
[[gnu::always_inline]] inline Vec<T> merge(Vec<T> a, Vec<T> b, Lanes<I...>) {
  return __builtin_shufflevector(a, b, source_lane(I, D, kHigh, kWidth<T>)...);
}

template <typename T, int D, bool kHigh>
[[gnu::always_inline]] inline Vec<T> merge(Vec<T> a, Vec<T> b) {
  return merge<T, D, kHigh>(a, b, typename CountLanes<kWidth<T>>::type());
}

template <typename T, int D>
[[gnu::always_inline]] inline void add_pairs(Vec<T>* v) {
#pragma GCC unroll 16
  for (int i = 0; i < D; ++i) {
    v[i] = merge<T, D, false>(v[i], v[i + D]) + merge<T, D, true>(v[i], v[i + D]);
  }
  if constexpr (D > 1) add_pairs<T, D / 2>(v);
}

template <typename T, int D>
[[gnu::always_inline]] inline void swap_blocks(Vec<T>* v) {
#pragma GCC unroll 16
  for (int i = 0; i < kWidth<T>; ++i) {
    if ((i & D) != 0) continue;
    const Vec<T> low = merge<T, D, false>(v[i], v[i + D]);
    v[i + D] = merge<T, D, true>(v[i], v[i + D]);
    v[i] = low;
  }
  if constexpr (D > 1) swap_blocks<T, D / 2>(v);
}

}  // namespace detail

template <typename T>
inline Vec<T> sum_of_each(const T* from) {
  Vec<T> v[kWidth<T>];
#pragma GCC unroll 16
  for (int i = 0; i < kWidth<T>; ++i) v[i] = load(from + i * kWidth<T>);
  detail::add_pairs<T, kWidth<T> / 2>(v);
  return v[0];
}

template <typename T>
inline void transpose(Vec<T> (&rows)[kWidth<T>]) {
  detail::swap_blocks<T, kWidth<T> / 2>(rows);
}

// The rooms' parts of the table.
template <typename T>
void add_conv(LaneKernels<T>* kernels);
template <typename T>
void add_pool(LaneKernels<T>* kernels);
template <typename T>
void add_gemm(LaneKernels<T>* kernels);

}  // namespace sardonyx::ops::lanes::SARDONYX_ISA
