// The table of one instruction set, and the turn between images as rows and images as lanes.
#include "ops/core/lanes_vector.h"

namespace sardonyx::ops::lanes::SARDONYX_ISA {
namespace {

template <typename T>
void to_lanes(const T* rows, ptrdiff_t row_stride, int valid, int length, T* lanes) {
  constexpr int kW = kWidth<T>;
  for (int piece = 0; piece < kPieces<T>;
       ++piece, rows += kW * row_stride, lanes += kW, valid -= kW) {
    int i = 0;
    if (valid >= kW) {
      for (; i + kW <= length; i += kW) {
        Vec<T> v[kW];
#pragma GCC unroll 16
        for (int n = 0; n < kW; ++n) v[n] = load(rows + n * row_stride + i);
        transpose<T>(v);
#pragma GCC unroll 16
        for (int n = 0; n < kW; ++n) store(lanes + (i + n) * kLanes, v[n]);
      }
    }
    for (; i < length; ++i) {
      for (int n = 0; n < kW; ++n)
        lanes[i * kLanes + n] = n < valid ? rows[n * row_stride + i] : T(0);
    }
  }
}

template <typename T>
void from_lanes(const T* lanes, int valid, int length, T* rows, ptrdiff_t row_stride) {
  constexpr int kW = kWidth<T>;
  for (int piece = 0; piece < kPieces<T>;
       ++piece, rows += kW * row_stride, lanes += kW, valid -= kW) {
    int i = 0;
    if (valid >= kW) {
      for (; i + kW <= length; i += kW) {
        Vec<T> v[kW];
#pragma GCC unroll 16
        for (int n = 0; n < kW; ++n) v[n] = load(lanes + (i + n) * kLanes);
        transpose<T>(v);
#pragma GCC unroll 16
        for (int n = 0; n < kW; ++n) store(rows + n * row_stride + i, v[n]);
      }
    }
    for (; i < length; ++i) {
      for (int n = 0; n < kW && n < valid; ++n) rows[n * row_stride + i] = lanes[i * kLanes + n];
    }
  }
}

template <typename T>
int64_t peak_probe(int64_t rounds, T* sink) {
  constexpr int kChains = 10;  // more than latency x units, fewer than registers
  Vec<T> acc[kChains];
  for (int i = 0; i < kChains; ++i) acc[i] = broadcast<T>(sink[0] + static_cast<T>(i));
  const Vec<T> factor = broadcast<T>(sink[1]);
  const Vec<T> term = broadcast<T>(sink[2]);
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kChains; ++i) acc[i] = acc[i] * factor + term;
  }
  Vec<T> sum{};
  for (int i = 0; i < kChains; ++i) sum += acc[i];
  sink[3] = sum[0];
  return rounds * kChains * kWidth<T> * 2;
}

template <typename T>
LaneKernels<T> make_table(Isa isa) {
  LaneKernels<T> kernels;
  kernels.isa = isa;
  kernels.to_lanes = to_lanes<T>;
  kernels.from_lanes = from_lanes<T>;
  kernels.peak_probe = peak_probe<T>;
  add_conv(&kernels);
  add_pool(&kernels);
  add_gemm(&kernels);
  return kernels;
}

constexpr Isa kIsa = kVectorBytes == 64   ? Isa::kAvx512
                     : kVectorBytes == 32 ? Isa::kAvx2
                                          : Isa::kBaseline;

}  // namespace

template <typename T>
const LaneKernels<T>& table();

template <>
const LaneKernels<float>& table<float>() {
  static const LaneKernels<float> kernels = make_table<float>(kIsa);
  return kernels;
}

template <>
const LaneKernels<double>& table<double>() {
  static const LaneKernels<double> kernels = make_table<double>(kIsa);
  return kernels;
}

}  // namespace sardonyx::ops::lanes::SARDONYX_ISA
