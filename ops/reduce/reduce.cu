// Reductions in two stages: threads of a block share the elements of y and what each is made of,
// blocks take pieces of that, and a second kernel folds the pieces in their order. In double.
#include <cmath>
#include <limits>

#include "ops/core/bfloat16.cuh"
#include "ops/reduce/reduce_cuda.h"

namespace sardonyx::ops::reduce {

namespace {

using cuda::Computed;
using cuda::for_elements;
using cuda::Grid;
using cuda::grid_over;
using cuda::kBlock;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

__device__ inline int64_t place(const AxisGroup* groups, int count, int64_t i) {
  if (count == 1) return i * groups[0].stride;
  int64_t at = 0;
  for (int group = 0; group < count; ++group) {
    at += i % groups[group].size * groups[group].stride;
    i /= groups[group].size;
  }
  return at;
}
__device__ inline int64_t place_of_kept(const Reduced& s, int64_t i) {
  return place(s.kept, s.kept_groups, i);
}
__device__ inline int64_t place_of_removed(const Reduced& s, int64_t j) {
  return place(s.removed, s.removed_groups, j);
}

// --- Folds: what is known of some elements

// `second` is the sum of exp(x - first), only where that is asked for.
struct State {
  double first, second;
};

// Sum of exp(x), as exp(first) * second. NaN stays.
__device__ inline State log_sum_merged(State a, State b) {
  if (a.first != a.first) return a;
  if (b.first != b.first) return b;
  if (a.first == b.first) return {a.first, a.second + b.second};
  const State low = a.first < b.first ? a : b, high = a.first < b.first ? b : a;
  return {high.first, high.second + low.second * std::exp(low.first - high.first)};
}

template <FoldBy kFold>
struct Folding {
  __device__ static State start() {
    switch (kFold) {
      case FoldBy::kProduct:
        return {1, 0};
      case FoldBy::kMax:
      case FoldBy::kLogSumExp:
        return {-kInfinity, 0};
      case FoldBy::kMin:
        return {kInfinity, 0};
      default:
        return {0, 0};
    }
  }
  __device__ static State of(double x) {
    switch (kFold) {
      case FoldBy::kMagnitudes:
        return {x < 0 ? -x : x, 0};
      case FoldBy::kSquares:
        return {x * x, 0};
      default:
        return {x, 1};
    }
  }
  // NaN wins a maximum and a minimum.
  __device__ static State merged(State a, State b) {
    switch (kFold) {
      case FoldBy::kProduct:
        return {a.first * b.first, 0};
      case FoldBy::kMax:
        return b.first > a.first || b.first != b.first ? b : a;
      case FoldBy::kMin:
        return b.first < a.first || b.first != b.first ? b : a;
      case FoldBy::kLogSumExp:
        return log_sum_merged(a, b);
      default:
        return {a.first + b.first, 0};
    }
  }
  __device__ static double finished(State state, Then then, int64_t count) {
    if (kFold == FoldBy::kLogSumExp) {
      const bool infinite = state.first == kInfinity || state.first == -kInfinity;
      return infinite ? state.first : state.first + std::log(state.second);
    }
    switch (then) {
      case Then::kMean:
        return state.first / static_cast<double>(count);
      case Then::kRoot:
        return std::sqrt(state.first);
      case Then::kLog:
        return std::log(state.first);
      default:
        return state.first;
    }
  }
};

// --- Kernels

// How work is shared; follows from the shape alone.
struct Shares {
  int kept_lanes;  // a power of two: elements of y of one block
  int64_t blocks, pieces, piece;
};

int64_t over(int64_t n, int64_t by) { return (n + by - 1) / by; }
int lanes_for(int64_t n, int most) {
  int lanes = 1;
  while (lanes < n && lanes < most) lanes *= 2;
  return lanes;
}

Shares shares_of(const Reduced& s) {
  constexpr int64_t kWantedBlocks = 132 * 8, kWorthABlock = 8 * kBlock, kMostPieces = 1024;
  Shares shares{};
  const bool by_column = s.kept_groups > 0 && s.kept[0].stride == 1;
  const int removed_lanes = lanes_for(s.removed_count, kBlock);
  shares.kept_lanes = by_column ? lanes_for(s.kept[0].size, cuda::kWarp) : 1;
  if (shares.kept_lanes < kBlock / removed_lanes) shares.kept_lanes = kBlock / removed_lanes;
  shares.blocks = over(s.kept_count, shares.kept_lanes);
  const int64_t work = over(s.removed_count * shares.kept_lanes, kWorthABlock);
  int64_t most = over(kWantedBlocks, shares.blocks < 1 ? 1 : shares.blocks);
  if (most > work) most = work;
  if (most > kMostPieces) most = kMostPieces;
  shares.piece = over(s.removed_count, most < 1 ? 1 : most);
  shares.pieces = s.removed_count == 0 ? 1 : over(s.removed_count, shares.piece);
  return shares;
}

template <class T, FoldBy kFold>
__global__ void pieces_kernel(Reduced s, Shares shares, const T* x, State* partials) {
  __shared__ State parts[kBlock];
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t i =
      static_cast<int64_t>(blockIdx.x) * shares.kept_lanes + thread % shares.kept_lanes;
  State state = Folding<kFold>::start();
  if (i < s.kept_count) {
    const T* from = x + place_of_kept(s, i);
    const int64_t begin = static_cast<int64_t>(blockIdx.y) * shares.piece;
    const int64_t end =
        begin + shares.piece < s.removed_count ? begin + shares.piece : s.removed_count;
    for (int64_t j = begin + thread / shares.kept_lanes; j < end; j += kBlock / shares.kept_lanes) {
      const double value = static_cast<double>(from[place_of_removed(s, j)]);
      state = Folding<kFold>::merged(state, Folding<kFold>::of(value));
    }
  }
  parts[thread] = state;
  __syncthreads();
  for (int half = kBlock / 2; half >= shares.kept_lanes; half /= 2) {
    if (thread < half) parts[thread] = Folding<kFold>::merged(parts[thread], parts[thread + half]);
    __syncthreads();
  }
  if (thread < shares.kept_lanes && i < s.kept_count) {
    partials[static_cast<int64_t>(blockIdx.y) * s.kept_count + i] = parts[thread];
  }
}

template <class T, FoldBy kFold>
__global__ void finish_kernel(int64_t count, int64_t pieces, int64_t removed, Then then,
                              const State* partials, Write write, T* y) {
  for_elements(count, [&](int64_t i) {
    State state = partials[i];
    for (int64_t piece = 1; piece < pieces; ++piece) {
      state = Folding<kFold>::merged(state, partials[piece * count + i]);
    }
    const auto value = static_cast<Computed<T>>(Folding<kFold>::finished(state, then, removed));
    y[i] = write == Write::kAdd ? y[i] + value : value;
  });
}

template <class T>
__global__ void extremum_gradient_kernel(Reduced s, const T* x, const T* y, const T* dy, T* dx) {
  for_elements(s.kept_count, [&](int64_t i) {
    const int64_t first = place_of_kept(s, i);
    const Computed<T> extremum = y[i];
    const auto wins = [&](int64_t at) {
      const Computed<T> v = x[at];
      return v == extremum || (v != v && extremum != extremum);
    };
    int64_t count = 0;
    for (int64_t j = 0; j < s.removed_count; ++j) {
      count += wins(first + place_of_removed(s, j)) ? 1 : 0;
    }
    const Computed<T> share = dy[i] / static_cast<Computed<T>>(count < 1 ? 1 : count);
    for (int64_t j = 0; j < s.removed_count; ++j) {
      const int64_t at = first + place_of_removed(s, j);
      dx[at] = wins(at) ? share : 0;
    }
  });
}

// Products of what stands before and after each element: exact with zeros, no division.
template <class T>
__global__ void product_gradient_kernel(Reduced s, const T* x, const T* dy, T* dx) {
  for_elements(s.kept_count, [&](int64_t i) {
    const int64_t first = place_of_kept(s, i);
    const double incoming = static_cast<double>(dy[i]);
    double before = 1;
    for (int64_t j = 0; j < s.removed_count; ++j) {
      const int64_t at = first + place_of_removed(s, j);
      dx[at] = static_cast<T>(before * incoming);
      before *= static_cast<double>(x[at]);
    }
    double after = 1;
    for (int64_t j = s.removed_count; j-- > 0;) {
      const int64_t at = first + place_of_removed(s, j);
      dx[at] = static_cast<T>(static_cast<double>(dx[at]) * after);
      after *= static_cast<double>(x[at]);
    }
  });
}

// Calls f.template operator()<fold>().
template <class F>
void by_fold(FoldBy fold, const F& f) {
  switch (fold) {
    case FoldBy::kSum:
      return f.template operator()<FoldBy::kSum>();
    case FoldBy::kMagnitudes:
      return f.template operator()<FoldBy::kMagnitudes>();
    case FoldBy::kSquares:
      return f.template operator()<FoldBy::kSquares>();
    case FoldBy::kProduct:
      return f.template operator()<FoldBy::kProduct>();
    case FoldBy::kMax:
      return f.template operator()<FoldBy::kMax>();
    case FoldBy::kMin:
      return f.template operator()<FoldBy::kMin>();
    case FoldBy::kLogSumExp:
      return f.template operator()<FoldBy::kLogSumExp>();
  }
}

}  // namespace

size_t workspace_bytes(const Reduced& s) {
  return static_cast<size_t>(shares_of(s).pieces * s.kept_count) * sizeof(State);
}

void launch_reduction(cuda::Stream stream, graph::DType dtype, const Reduced& s, FoldBy fold,
                      Then then, const void* x, Write write, void* y, void* workspace) {
  if (s.kept_count == 0) return;
  const Shares shares = shares_of(s);
  auto* partials = static_cast<State*>(workspace);
  const Grid grid{static_cast<unsigned>(shares.blocks), static_cast<unsigned>(shares.pieces)};
  by_fold(fold, [&]<FoldBy kFold>() {
    cuda::dispatch_stored(dtype, [&]<class T>() {
      LAUNCH((pieces_kernel<T, kFold>), grid, stream, s, shares, static_cast<const T*>(x),
             partials);
      LAUNCH((finish_kernel<T, kFold>), grid_over(s.kept_count), stream, s.kept_count,
             shares.pieces, s.removed_count, then, partials, write, static_cast<T*>(y));
    });
  });
}

void launch_extremum_gradient(cuda::Stream stream, graph::DType dtype, const Reduced& s,
                              const void* x, const void* y, const void* dy, void* dx) {
  if (s.kept_count == 0) return;
  cuda::dispatch_stored(dtype, [&]<class T>() {
    LAUNCH((extremum_gradient_kernel<T>), grid_over(s.kept_count), stream, s,
           static_cast<const T*>(x), static_cast<const T*>(y), static_cast<const T*>(dy),
           static_cast<T*>(dx));
  });
}

void launch_product_gradient(cuda::Stream stream, graph::DType dtype, const Reduced& s,
                             const void* x, const void* dy, void* dx) {
  if (s.kept_count == 0) return;
  cuda::dispatch_float(dtype, [&]<class T>() {
    LAUNCH((product_gradient_kernel<T>), grid_over(s.kept_count), stream, s,
           static_cast<const T*>(x), static_cast<const T*>(dy), static_cast<T*>(dx));
  });
}

}  // namespace sardonyx::ops::reduce
