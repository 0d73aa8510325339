// Sums per channel in two stages, then one pass over the elements. The semantics are those of
// batch_norm_cpu.cc.
#include <cmath>

#include "ops/batch_norm/batch_norm_cuda.h"
#include "ops/core/bfloat16.cuh"
#include "ops/core/cuda_sums.cuh"

namespace sardonyx::ops::batch_norm {

namespace {

using cuda::ChannelGrid;
using cuda::ChannelWalk;
using cuda::Computed;
using cuda::finish_grid;
using cuda::for_elements;
using cuda::grid_of;
using cuda::grid_over;
using cuda::load_pack;
using cuda::Pack;
using cuda::with_packs;

// Numbers that are prepared per channel: 4 of the gradient, 3 of the affine, the mean in double.
constexpr int64_t kPrepared = 8;

__device__ inline double read(const Numbers& numbers, int64_t i) {
  return numbers.dtype == graph::DType::kFloat64
             ? static_cast<const double*>(numbers.data)[i]
             : static_cast<double>(static_cast<const float*>(numbers.data)[i]);
}

__device__ inline double inverse_deviation(const AffineOperands& f, int64_t c) {
  return 1 / std::sqrt(read(f.var, c) + f.epsilon);
}

// Per channel, in the type N that elements are computed in.
template <class N>
struct AffineTable {
  N *mean = nullptr, *a = nullptr, *b = nullptr;

  static AffineTable at(N* to, int64_t channels) { return {to, to + channels, to + 2 * channels}; }
};

// The entries of kAcross neighbouring channels, for element j of a pack.
template <class N, int kAcross>
struct Affine {
  N mean[kAcross] = {}, a[kAcross] = {}, b[kAcross] = {};

  __device__ Affine(const AffineTable<N>& table, int64_t channel) {
    for (int k = 0; k < kAcross && table.a != nullptr; ++k) {
      mean[k] = table.mean[channel + k];
      a[k] = table.a[channel + k];
      b[k] = table.b[channel + k];
    }
  }
  __device__ N of(N x, int j) const {
    const int k = j % kAcross;
    return (x - mean[k]) * a[k] + b[k];
  }
};

template <class N>
__global__ void prepare_affine(AffineOperands f, int64_t channels, AffineTable<N> to) {
  for_elements(channels, [&](int64_t c) {
    const double exact = read(f.mean, c);
    const double factor = read(f.scale, c) * inverse_deviation(f, c);
    to.mean[c] = static_cast<N>(exact);
    to.a[c] = static_cast<N>(factor);
    to.b[c] = static_cast<N>(read(f.bias, c) - (exact - static_cast<double>(to.mean[c])) * factor);
  });
}

template <class N>
void launch_prepare(const Work& work, const AffineOperands& f, const AffineTable<N>& to) {
  LAUNCH((prepare_affine<N>), grid_over(work.cells.channels), work.stream, f, work.cells.channels,
         to);
}

double* partials_of(const Work& work) {
  return static_cast<double*>(work.workspace) + kPrepared * work.cells.channels;
}

template <class T, int kWidth>
__device__ inline Pack<Computed<T>, kWidth> load_numbers(const T* from) {
  const Pack<T, kWidth> stored = load_pack<kWidth>(from);
  Pack<Computed<T>, kWidth> numbers;
  for (int j = 0; j < kWidth; ++j) numbers.at[j] = stored.at[j];
  return numbers;
}
template <class T, class N, int kWidth>
__device__ inline void store_numbers(const Pack<N, kWidth>& numbers, T* to) {
  Pack<T, kWidth> stored;
  for (int j = 0; j < kWidth; ++j) stored.at[j] = numbers.at[j];
  cuda::store_pack(stored, to);
}

// Element by element. Body: `Table<kAcross> table<kAcross>(channel)`, and `run<kWidth>(first
// element, table)`, where element j of a pack belongs to entry j % kAcross of the table.
template <int kWidth, class Index, class Body>
__global__ void plane_kernel(int64_t packs, Index inner, Index channels, Body body) {
  for_elements(packs, [&](int64_t pack) {
    const Index first = static_cast<Index>(pack) * kWidth;
    const auto channel = static_cast<int64_t>(first / inner % channels);
    body.template run<kWidth>(static_cast<int64_t>(first), body.template table<1>(channel));
  });
}

template <int kWidth, int kAcross, class Body>
__global__ void channel_kernel(ChannelWalk walk, Body body) {
  if (!walk.has_channel()) return;
  const auto table = body.template table<kAcross>(walk.channel() * kAcross);
  walk.each([&](int64_t at) { body.template run<kWidth>(at, table); });
}

template <class T, class Body>
void over_planes(const Work& work, bool aligned, const Body& body) {
  constexpr int kMost = 16 / static_cast<int>(sizeof(T));
  const int64_t n = work.cells.numel(), inner = work.cells.cells, channels = work.cells.channels;
  const auto with = [&]<class Index>() {
    if (aligned && inner % kMost == 0) {
      LAUNCH((plane_kernel<kMost, Index, Body>), grid_over(n / kMost), work.stream, n / kMost,
             inner, channels, body);
    } else {
      LAUNCH((plane_kernel<1, Index, Body>), grid_over(n), work.stream, n, inner, channels, body);
    }
  };
  if (n <= INT32_MAX) return with.template operator()<uint32_t>();
  with.template operator()<int64_t>();
}

// Where channels are the innermost axis a thread keeps its own.
template <class T, class Body>
void over_elements(const Work& work, bool aligned, const Body& body) {
  if (work.cells.numel() == 0) return;
  if (work.cells.cells > 1) return over_planes<T>(work, aligned, body);
  with_packs<T>(work.cells, aligned, [&]<int kWidth, int kAcross>(const auto& cells) {
    const ChannelGrid grid(cells);
    LAUNCH((channel_kernel<kWidth, kAcross, Body>), grid_of(grid), work.stream,
           ChannelWalk(cells, grid), body);
  });
}

// --- sums

template <class T, int kWidth, int kAcross>
__global__ void sums_kernel(ChannelWalk walk, const T* x, double* partials) {
  double sums[2 * kAcross] = {};  // of all channels, then the squares
  if (walk.has_channel()) {
    walk.each([&](int64_t at) {
      const Pack<T, kWidth> values = load_pack<kWidth>(x + at);
      for (int j = 0; j < kWidth; ++j) {
        const auto value = static_cast<double>(values.at[j]);
        sums[j % kAcross] += value;
        sums[kAcross + j % kAcross] += value * value;
      }
    });
  }
  cuda::store_partials<2, kAcross>(walk, sums, partials);
}

__global__ void finish_sums(const double* partials, int64_t pieces, int64_t channels, double count,
                            double* to) {
  cuda::finish_sums<2>(partials, pieces, channels, [&](int64_t c, const double* sums) {
    to[c] = count;
    to[channels + c] = sums[0];
    to[2 * channels + c] = sums[1];
  });
}

__global__ void moments_kernel(int64_t channels, const double* sums, double* mean, double* var,
                               double* count) {
  for_elements(channels, [&](int64_t c) {
    const double n = sums[c] < 1.0 ? 1.0 : sums[c];
    const double sum = sums[channels + c], square = sums[2 * channels + c];
    const double m = sum / n;
    const double v = (square - sum * m) / n;
    mean[c] = m;
    var[c] = v < 0.0 ? 0.0 : v;
    if (c == 0) *count = sums[0];
  });
}

// --- gradients as they are read

template <class T>
struct Incoming {
  using N = Computed<T>;
  const T *dy = nullptr, *second = nullptr, *y = nullptr;
  AffineTable<N> affine;

  explicit Incoming(const IncomingOperands& from)
      : dy(static_cast<const T*>(from.dy)),
        second(static_cast<const T*>(from.second)),
        y(static_cast<const T*>(from.y)) {}

  // `again`: the affine of the pack's channels. Comparisons are written so that NaN comes through.
  template <int kWidth, int kAcross>
  __device__ Pack<N, kWidth> at(int64_t i, const Affine<N, kAcross>& again,
                                const Pack<N, kWidth>& x) const {
    Pack<N, kWidth> d = load_numbers<T, kWidth>(dy + i);
    if (second != nullptr) {
      const Pack<N, kWidth> more = load_numbers<T, kWidth>(second + i);
      for (int j = 0; j < kWidth; ++j) d.at[j] += more.at[j];
    }
    if (y != nullptr) {
      const Pack<N, kWidth> out = load_numbers<T, kWidth>(y + i);
      for (int j = 0; j < kWidth; ++j) d.at[j] = out.at[j] <= N(0) ? N(0) : d.at[j];
    } else if (affine.a != nullptr) {
      for (int j = 0; j < kWidth; ++j) {
        d.at[j] = again.of(x.at[j], j) <= N(0) ? N(0) : d.at[j];
      }
    }
    return d;
  }
  bool aligned() const {
    return cuda::aligned_for_packs(dy) && cuda::aligned_for_packs(second) &&
           cuda::aligned_for_packs(y);
  }
};

template <class T, int kWidth, int kAcross>
__global__ void grad_sums_kernel(ChannelWalk walk, Incoming<T> dy, const T* x, Numbers means, T* dz,
                                 double* partials) {
  double sums[2 * kAcross] = {};  // of all channels, then the products
  if (walk.has_channel()) {
    const int64_t c = walk.channel() * kAcross;
    const Affine<Computed<T>, kAcross> again(dy.affine, c);
    double mean[kAcross];
    for (int k = 0; k < kAcross; ++k) mean[k] = read(means, c + k);
    walk.each([&](int64_t i) {
      const auto in = load_numbers<T, kWidth>(x + i);
      const auto d = dy.at(i, again, in);
      if (dz != nullptr) store_numbers(d, dz + i);
      for (int j = 0; j < kWidth; ++j) {
        const int k = j % kAcross;
        const auto value = static_cast<double>(d.at[j]);
        sums[k] += value;
        sums[kAcross + k] += value * (static_cast<double>(in.at[j]) - mean[k]);
      }
    });
  }
  cuda::store_partials<2, kAcross>(walk, sums, partials);
}

__global__ void finish_grad_sums(const double* partials, int64_t pieces, int64_t channels,
                                 AffineOperands f, double* dbias, double* dscale) {
  cuda::finish_sums<2>(partials, pieces, channels, [&](int64_t c, const double* sums) {
    dbias[c] = sums[0];
    dscale[c] = sums[1] * inverse_deviation(f, c);
  });
}

// --- element by element

template <class T>
struct Apply {
  using N = Computed<T>;
  const T *x, *addend;
  AffineTable<N> affine;
  Then then;
  T* y;

  template <int kAcross>
  __device__ Affine<N, kAcross> table(int64_t channel) const {
    return {affine, channel};
  }
  template <int kWidth, int kAcross>
  __device__ void run(int64_t i, const Affine<N, kAcross>& table) const {
    Pack<N, kWidth> out = load_numbers<T, kWidth>(x + i);
    for (int j = 0; j < kWidth; ++j) out.at[j] = table.of(out.at[j], j);
    if (addend != nullptr) {
      const Pack<N, kWidth> more = load_numbers<T, kWidth>(addend + i);
      for (int j = 0; j < kWidth; ++j) out.at[j] += more.at[j];
    }
    if (then == Then::kRelu) {
      for (int j = 0; j < kWidth; ++j) out.at[j] = out.at[j] < N(0) ? N(0) : out.at[j];
    }
    store_numbers(out, y + i);
  }
};

// dx = a * dy - ((x - mean) * k + c), one entry per channel each.
template <class N>
struct SlopeTable {
  N *a, *mean, *k, *c;

  static SlopeTable at(N* to, int64_t channels) {
    return {to, to + channels, to + 2 * channels, to + 3 * channels};
  }
};

template <class N>
__global__ void prepare_slopes(AffineOperands f, GradDataOperands through, int64_t channels,
                               SlopeTable<N> to) {
  for_elements(channels, [&](int64_t c) {
    const double inverse = inverse_deviation(f, c);
    const double factor = read(f.scale, c) * inverse;
    to.a[c] = static_cast<N>(factor);
    if (through.x == nullptr) return;
    const double exact = read(f.mean, c), count = read(through.count, 0);
    const double share = factor / (count < 1.0 ? 1.0 : count);
    const double slope = share * read(through.dscale, c) * inverse;
    to.mean[c] = static_cast<N>(exact);
    to.k[c] = static_cast<N>(slope);
    to.c[c] = static_cast<N>(share * read(through.dbias, c) -
                             (exact - static_cast<double>(to.mean[c])) * slope);
  });
}

template <class T>
struct GradData {
  using N = Computed<T>;
  Incoming<T> dy;
  const T* x;
  SlopeTable<N> slopes;
  T* dx;

  template <int kAcross>
  struct Table {
    Affine<N, kAcross> again;
    N a[kAcross] = {}, mean[kAcross] = {}, k[kAcross] = {}, c[kAcross] = {};
  };
  template <int kAcross>
  __device__ Table<kAcross> table(int64_t channel) const {
    Table<kAcross> table{{dy.affine, channel}};
    for (int k = 0; k < kAcross; ++k) {
      table.a[k] = slopes.a[channel + k];
      if (x == nullptr) continue;
      table.mean[k] = slopes.mean[channel + k];
      table.k[k] = slopes.k[channel + k];
      table.c[k] = slopes.c[channel + k];
    }
    return table;
  }
  template <int kWidth, int kAcross>
  __device__ Pack<N, kWidth> run(int64_t i, const Table<kAcross>& table) const {
    Pack<N, kWidth> in{};
    if (x != nullptr) in = load_numbers<T, kWidth>(x + i);
    Pack<N, kWidth> d = dy.at(i, table.again, in);
    for (int j = 0; j < kWidth; ++j) {
      const int k = j % kAcross;
      d.at[j] = table.a[k] * d.at[j];
      if (x != nullptr) d.at[j] -= (in.at[j] - table.mean[k]) * table.k[k] + table.c[k];
    }
    store_numbers(d, dx + i);
    return d;
  }
};

template <class T, int kWidth, int kAcross>
__global__ void grad_data_sums_kernel(ChannelWalk walk, GradData<T> body, double* partials) {
  double sums[kAcross] = {};
  if (walk.has_channel()) {
    const auto table = body.template table<kAcross>(walk.channel() * kAcross);
    walk.each([&](int64_t i) {
      const auto d = body.template run<kWidth>(i, table);
      for (int j = 0; j < kWidth; ++j) sums[j % kAcross] += static_cast<double>(d.at[j]);
    });
  }
  cuda::store_partials<1, kAcross>(walk, sums, partials);
}

template <class T>
__global__ void finish_grad_data_sums(const double* partials, int64_t pieces, int64_t channels,
                                      T* to) {
  cuda::finish_sums<1>(partials, pieces, channels, [&](int64_t c, const double* sums) {
    to[c] = static_cast<Computed<T>>(sums[0]);
  });
}

// --- statistics

template <class T>
__global__ void running_kernel(int64_t n, RunningOperands o, T* next) {
  const double count = read(o.count, 0);
  const double stretch = o.stretch == Stretch::kSample && count > 1 ? count / (count - 1) : 1.0;
  for_elements(n, [&](int64_t c) {
    const double batch = read(o.batch, c) * stretch;
    next[c] = static_cast<T>(o.momentum * read(o.old, c) + (1 - o.momentum) * batch);
  });
}

template <class T>
__global__ void commit_kernel(int64_t n, const T* old, const T* pending, Numbers scale,
                              Numbers replicas, T* next) {
  const bool taken = std::isfinite(read(scale, 0));
  const double share = taken && replicas.data != nullptr ? 1 / read(replicas, 0) : 1.0;
  for_elements(n, [&](int64_t i) {
    next[i] = static_cast<T>(static_cast<double>(taken ? pending[i] : old[i]) * share);
  });
}

}  // namespace

size_t Work::workspace_bytes(const cuda::ChannelCells& cells) {
  const int64_t partials = 2 * cuda::most_partials(cells);
  return static_cast<size_t>(kPrepared * cells.channels + partials) * sizeof(double);
}

void launch_sums(const Work& work, const void* x, double* sums) {
  const int64_t channels = work.cells.channels;
  if (channels == 0) return;
  const auto count = static_cast<double>(work.cells.rows * work.cells.cells);
  cuda::dispatch_stored(work.dtype, [&]<class T>() {
    const bool aligned = cuda::aligned_for_packs(x);
    with_packs<T>(work.cells, aligned, [&]<int kWidth, int kAcross>(const auto& cells) {
      const ChannelGrid grid(cells);
      LAUNCH((sums_kernel<T, kWidth, kAcross>), grid_of(grid), work.stream,
             ChannelWalk(cells, grid), static_cast<const T*>(x), partials_of(work));
      LAUNCH(finish_sums, finish_grid(channels), work.stream, partials_of(work), grid.pieces,
             channels, count, sums);
    });
  });
}

void launch_moments(cuda::Stream stream, int64_t channels, const double* sums, double* mean,
                    double* var, double* count) {
  if (channels == 0) return cuda::fill_zero(stream, count, sizeof(double));
  LAUNCH(moments_kernel, grid_over(channels), stream, channels, sums, mean, var, count);
}

void launch_apply(const Work& work, const AffineOperands& f, const void* x, const void* addend,
                  Then then, void* y) {
  if (work.cells.numel() == 0) return;
  cuda::dispatch_stored(work.dtype, [&]<class T>() {
    const auto affine = AffineTable<Computed<T>>::at(static_cast<Computed<T>*>(work.workspace),
                                                     work.cells.channels);
    launch_prepare(work, f, affine);
    const bool aligned =
        cuda::aligned_for_packs(x) && cuda::aligned_for_packs(addend) && cuda::aligned_for_packs(y);
    over_elements<T>(work, aligned,
                     Apply<T>{static_cast<const T*>(x), static_cast<const T*>(addend), affine, then,
                              static_cast<T*>(y)});
  });
}

void launch_grad_sums(const Work& work, const AffineOperands& f, const IncomingOperands& operands,
                      const void* x, double* dbias, double* dscale, void* dz) {
  const int64_t channels = work.cells.channels;
  if (channels == 0) return;
  cuda::dispatch_stored(work.dtype, [&]<class T>() {
    Incoming<T> dy(operands);
    if (f.bias.data != nullptr) {
      dy.affine = AffineTable<Computed<T>>::at(static_cast<Computed<T>*>(work.workspace), channels);
      launch_prepare(work, f, dy.affine);
    }
    const bool aligned = dy.aligned() && cuda::aligned_for_packs(x) && cuda::aligned_for_packs(dz);
    with_packs<T>(work.cells, aligned, [&]<int kWidth, int kAcross>(const auto& cells) {
      const ChannelGrid grid(cells);
      LAUNCH((grad_sums_kernel<T, kWidth, kAcross>), grid_of(grid), work.stream,
             ChannelWalk(cells, grid), dy, static_cast<const T*>(x), f.mean, static_cast<T*>(dz),
             partials_of(work));
      LAUNCH(finish_grad_sums, finish_grid(channels), work.stream, partials_of(work), grid.pieces,
             channels, f, dbias, dscale);
    });
  });
}

void launch_grad_data(const Work& work, const AffineOperands& f, const IncomingOperands& operands,
                      const GradDataOperands& through, void* dx, void* sums) {
  const int64_t channels = work.cells.channels;
  if (channels == 0) return;
  cuda::dispatch_stored(work.dtype, [&]<class T>() {
    using N = Computed<T>;
    auto* prepared = static_cast<N*>(work.workspace);
    GradData<T> body{Incoming<T>(operands), static_cast<const T*>(through.x),
                     SlopeTable<N>::at(prepared, channels), static_cast<T*>(dx)};
    LAUNCH((prepare_slopes<N>), grid_over(channels), work.stream, f, through, channels,
           body.slopes);
    if (f.bias.data != nullptr) {
      body.dy.affine = AffineTable<N>::at(prepared + 4 * channels, channels);
      launch_prepare(work, f, body.dy.affine);
    }
    const bool aligned =
        body.dy.aligned() && cuda::aligned_for_packs(body.x) && cuda::aligned_for_packs(dx);
    if (sums == nullptr) return over_elements<T>(work, aligned, body);
    with_packs<T>(work.cells, aligned, [&]<int kWidth, int kAcross>(const auto& cells) {
      const ChannelGrid grid(cells);
      LAUNCH((grad_data_sums_kernel<T, kWidth, kAcross>), grid_of(grid), work.stream,
             ChannelWalk(cells, grid), body, partials_of(work));
      LAUNCH((finish_grad_data_sums<T>), finish_grid(channels), work.stream, partials_of(work),
             grid.pieces, channels, static_cast<T*>(sums));
    });
  });
}

void launch_running(cuda::Stream stream, graph::DType dtype, int64_t n,
                    const RunningOperands& operands, void* next) {
  if (n == 0) return;
  cuda::dispatch_float(dtype, [&]<class T>() {
    LAUNCH((running_kernel<T>), grid_over(n), stream, n, operands, static_cast<T*>(next));
  });
}

void launch_commit(cuda::Stream stream, graph::DType dtype, int64_t n, const void* old,
                   const void* pending, Numbers scale, Numbers replicas, void* next) {
  if (n == 0) return;
  cuda::dispatch_float(dtype, [&]<class T>() {
    LAUNCH((commit_kernel<T>), grid_over(n), stream, n, static_cast<const T*>(old),
           static_cast<const T*>(pending), scale, replicas, static_cast<T*>(next));
  });
}

}  // namespace sardonyx::ops::batch_norm
