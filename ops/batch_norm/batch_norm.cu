// Sums per channel in two stages, then one pass over the elements. The semantics are those of
// batch_norm_cpu.cc.
#include <cmath>

#include "ops/batch_norm/batch_norm_cuda.h"
#include "ops/core/cuda_packs.cuh"
#include "ops/core/cuda_sums.cuh"

namespace sardonyx::ops::batch_norm {

namespace {

using cuda::ChannelGrid;
using cuda::ChannelWalk;
using cuda::for_elements;
using cuda::grid_of;
using cuda::grid_over;
using cuda::load_pack;
using cuda::Pack;

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

template <class T>
struct Affine {
  T *mean = nullptr, *a = nullptr, *b = nullptr;

  static Affine at(T* to, int64_t channels) { return {to, to + channels, to + 2 * channels}; }
  __device__ T of(T x, int64_t c) const { return (x - mean[c]) * a[c] + b[c]; }
};

template <class T>
__global__ void prepare_affine(AffineOperands f, int64_t channels, Affine<T> to) {
  for_elements(channels, [&](int64_t c) {
    const double exact = read(f.mean, c);
    const double factor = read(f.scale, c) * inverse_deviation(f, c);
    to.mean[c] = static_cast<T>(exact);
    to.a[c] = static_cast<T>(factor);
    to.b[c] = static_cast<T>(read(f.bias, c) - (exact - static_cast<double>(to.mean[c])) * factor);
  });
}

template <class T>
void launch_prepare(const Work& work, const AffineOperands& f, const Affine<T>& to) {
  LAUNCH((prepare_affine<T>), grid_over(work.cells.channels), work.stream, f, work.cells.channels,
         to);
}

double* partials_of(const Work& work) {
  return static_cast<double*>(work.workspace) + kPrepared * work.cells.channels;
}

template <class T>
void over_elements(const Work& work, bool aligned, const auto& body) {
  cuda::launch_packs<T>(work.stream, work.cells.numel(), work.cells.channel_stride,
                        work.cells.channels, aligned, body);
}

// Calls f.template operator()<width>(cells): the cells of a channel in packs of 16 bytes, each
// where its first one is, if they lie one behind the other; else one by one.
template <class T, class F>
void in_packs(const Work& work, bool aligned, const F& f) {
  constexpr int kMost = 16 / static_cast<int>(sizeof(T));
  cuda::ChannelCells cells = work.cells;
  // Fewer packs than threads of a warp would change how the grid is cut.
  const bool packed = aligned && cells.cell_stride == 1 && cells.channel_stride % kMost == 0 &&
                      cells.cells % kMost == 0 && cells.cells >= kMost * cuda::kWarp;
  if (!packed) return f.template operator()<1>(cells);
  cells.cells /= kMost;
  cells.cell_stride = kMost;
  f.template operator()<kMost>(cells);
}

// --- sums

template <class T, int kWidth>
__global__ void sums_kernel(ChannelWalk walk, const T* x, double* sums, double* squares) {
  double sum = 0, square = 0;
  if (walk.has_channel()) {
    walk.each([&](int64_t at) {
      const Pack<T, kWidth> values = load_pack<kWidth>(x + at);
      for (int j = 0; j < kWidth; ++j) {
        const auto value = static_cast<double>(values.at[j]);
        sum += value;
        square += value * value;
      }
    });
  }
  cuda::store_partials(walk, {sum, square}, sums, squares);
}

__global__ void finish_sums(const double* sums, const double* squares, int64_t pieces,
                            int64_t channels, double count, double* to) {
  for_elements(channels, [&](int64_t c) {
    to[c] = count;
    to[channels + c] = cuda::sum_of_pieces(sums, pieces, channels, c);
    to[2 * channels + c] = cuda::sum_of_pieces(squares, pieces, channels, c);
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
  const T *dy = nullptr, *second = nullptr, *y = nullptr;
  Affine<T> affine;

  explicit Incoming(const IncomingOperands& from)
      : dy(static_cast<const T*>(from.dy)),
        second(static_cast<const T*>(from.second)),
        y(static_cast<const T*>(from.y)) {}

  // Comparisons are written so that NaN comes through.
  template <int kWidth>
  __device__ Pack<T, kWidth> at(int64_t i, int64_t channel, int step,
                                const Pack<T, kWidth>& x) const {
    Pack<T, kWidth> d = load_pack<kWidth>(dy + i);
    if (second != nullptr) {
      const Pack<T, kWidth> more = load_pack<kWidth>(second + i);
      for (int j = 0; j < kWidth; ++j) d.at[j] += more.at[j];
    }
    if (y != nullptr) {
      const Pack<T, kWidth> out = load_pack<kWidth>(y + i);
      for (int j = 0; j < kWidth; ++j) d.at[j] = out.at[j] <= T(0) ? T(0) : d.at[j];
    } else if (affine.a != nullptr) {
      for (int j = 0; j < kWidth; ++j) {
        d.at[j] = affine.of(x.at[j], channel + j * step) <= T(0) ? T(0) : d.at[j];
      }
    }
    return d;
  }
  bool aligned() const {
    return cuda::aligned_for_packs(dy) && cuda::aligned_for_packs(second) &&
           cuda::aligned_for_packs(y);
  }
};

template <class T, int kWidth>
__global__ void grad_sums_kernel(ChannelWalk walk, Incoming<T> dy, const T* x, Numbers means, T* dz,
                                 double* sums, double* products) {
  double sum = 0, product = 0;
  if (walk.has_channel()) {
    const int64_t c = walk.channel();
    const double mean = read(means, c);
    walk.each([&](int64_t i) {
      const Pack<T, kWidth> in = load_pack<kWidth>(x + i);
      const Pack<T, kWidth> d = dy.template at<kWidth>(i, c, 0, in);
      if (dz != nullptr) cuda::store_pack(d, dz + i);
      for (int j = 0; j < kWidth; ++j) {
        const auto value = static_cast<double>(d.at[j]);
        sum += value;
        product += value * (static_cast<double>(in.at[j]) - mean);
      }
    });
  }
  cuda::store_partials(walk, {sum, product}, sums, products);
}

__global__ void finish_grad_sums(const double* sums, const double* products, int64_t pieces,
                                 int64_t channels, AffineOperands f, double* dbias,
                                 double* dscale) {
  for_elements(channels, [&](int64_t c) {
    const double inverse = inverse_deviation(f, c);
    dbias[c] = cuda::sum_of_pieces(sums, pieces, channels, c);
    dscale[c] = cuda::sum_of_pieces(products, pieces, channels, c) * inverse;
  });
}

// --- element by element

template <class T>
struct Apply {
  const T *x, *addend;
  Affine<T> affine;
  Then then;
  T* y;

  template <int kWidth>
  __device__ void run(int64_t i, int64_t channel, int step) const {
    Pack<T, kWidth> out = load_pack<kWidth>(x + i);
    for (int j = 0; j < kWidth; ++j) out.at[j] = affine.of(out.at[j], channel + j * step);
    if (addend != nullptr) {
      const Pack<T, kWidth> more = load_pack<kWidth>(addend + i);
      for (int j = 0; j < kWidth; ++j) out.at[j] += more.at[j];
    }
    if (then == Then::kRelu) {
      for (int j = 0; j < kWidth; ++j) out.at[j] = out.at[j] < T(0) ? T(0) : out.at[j];
    }
    cuda::store_pack(out, y + i);
  }
};

// dx = a * dy - ((x - mean) * k + c), one entry per channel each.
template <class T>
struct Slopes {
  T *a, *mean, *k, *c;

  static Slopes at(T* to, int64_t channels) {
    return {to, to + channels, to + 2 * channels, to + 3 * channels};
  }
};

template <class T>
__global__ void prepare_slopes(AffineOperands f, GradDataOperands through, int64_t channels,
                               Slopes<T> to) {
  for_elements(channels, [&](int64_t c) {
    const double inverse = inverse_deviation(f, c);
    const double factor = read(f.scale, c) * inverse;
    to.a[c] = static_cast<T>(factor);
    if (through.x == nullptr) return;
    const double exact = read(f.mean, c), count = read(through.count, 0);
    const double share = factor / (count < 1.0 ? 1.0 : count);
    const double slope = share * read(through.dscale, c) * inverse;
    to.mean[c] = static_cast<T>(exact);
    to.k[c] = static_cast<T>(slope);
    to.c[c] = static_cast<T>(share * read(through.dbias, c) -
                             (exact - static_cast<double>(to.mean[c])) * slope);
  });
}

template <class T>
struct GradData {
  Incoming<T> dy;
  const T* x;
  Slopes<T> slopes;
  T* dx;

  template <int kWidth>
  __device__ Pack<T, kWidth> run(int64_t i, int64_t channel, int step) const {
    Pack<T, kWidth> in{};
    if (x != nullptr) in = load_pack<kWidth>(x + i);
    Pack<T, kWidth> d = dy.template at<kWidth>(i, channel, step, in);
    for (int j = 0; j < kWidth; ++j) {
      const int64_t c = channel + j * step;
      d.at[j] = slopes.a[c] * d.at[j];
      if (x != nullptr) d.at[j] -= (in.at[j] - slopes.mean[c]) * slopes.k[c] + slopes.c[c];
    }
    cuda::store_pack(d, dx + i);
    return d;
  }
};

template <class T, int kWidth>
__global__ void grad_data_sums_kernel(ChannelWalk walk, GradData<T> body, double* partials) {
  double sum = 0;
  if (walk.has_channel()) {
    walk.each([&](int64_t i) {
      const Pack<T, kWidth> d = body.template run<kWidth>(i, walk.channel(), 0);
      for (int j = 0; j < kWidth; ++j) sum += static_cast<double>(d.at[j]);
    });
  }
  cuda::store_partials(walk, {sum, 0.0}, partials, nullptr);
}

template <class T>
__global__ void finish_grad_data_sums(const double* partials, int64_t pieces, int64_t channels,
                                      T* sums) {
  for_elements(channels, [&](int64_t c) {
    sums[c] = static_cast<T>(cuda::sum_of_pieces(partials, pieces, channels, c));
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
  const int64_t partials = 2 * ChannelGrid(cells).partials(cells.channels);
  return static_cast<size_t>(kPrepared * cells.channels + partials) * sizeof(double);
}

void launch_sums(const Work& work, const void* x, double* sums) {
  const int64_t channels = work.cells.channels;
  if (channels == 0) return;
  cuda::dispatch_float(work.dtype, [&]<class T>() {
    in_packs<T>(work, cuda::aligned_for_packs(x), [&]<int kWidth>(const auto& cells) {
      const ChannelGrid grid(cells);
      double* first = partials_of(work);
      double* second = first + grid.partials(channels);
      LAUNCH((sums_kernel<T, kWidth>), grid_of(grid), work.stream, ChannelWalk(cells, grid),
             static_cast<const T*>(x), first, second);
      LAUNCH(finish_sums, grid_over(channels), work.stream, first, second, grid.pieces, channels,
             static_cast<double>(work.cells.rows * work.cells.cells), sums);
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
  cuda::dispatch_float(work.dtype, [&]<class T>() {
    const auto affine = Affine<T>::at(static_cast<T*>(work.workspace), work.cells.channels);
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
  cuda::dispatch_float(work.dtype, [&]<class T>() {
    Incoming<T> dy(operands);
    if (f.bias.data != nullptr) {
      dy.affine = Affine<T>::at(static_cast<T*>(work.workspace), channels);
      launch_prepare(work, f, dy.affine);
    }
    const bool aligned = dy.aligned() && cuda::aligned_for_packs(x) && cuda::aligned_for_packs(dz);
    in_packs<T>(work, aligned, [&]<int kWidth>(const auto& cells) {
      const ChannelGrid grid(cells);
      double* sums = partials_of(work);
      double* products = sums + grid.partials(channels);
      LAUNCH((grad_sums_kernel<T, kWidth>), grid_of(grid), work.stream, ChannelWalk(cells, grid),
             dy, static_cast<const T*>(x), f.mean, static_cast<T*>(dz), sums, products);
      LAUNCH(finish_grad_sums, grid_over(channels), work.stream, sums, products, grid.pieces,
             channels, f, dbias, dscale);
    });
  });
}

void launch_grad_data(const Work& work, const AffineOperands& f, const IncomingOperands& operands,
                      const GradDataOperands& through, void* dx, void* sums) {
  const int64_t channels = work.cells.channels;
  if (channels == 0) return;
  cuda::dispatch_float(work.dtype, [&]<class T>() {
    auto* prepared = static_cast<T*>(work.workspace);
    GradData<T> body{Incoming<T>(operands), static_cast<const T*>(through.x),
                     Slopes<T>::at(prepared, channels), static_cast<T*>(dx)};
    LAUNCH((prepare_slopes<T>), grid_over(channels), work.stream, f, through, channels,
           body.slopes);
    if (f.bias.data != nullptr) {
      body.dy.affine = Affine<T>::at(prepared + 4 * channels, channels);
      launch_prepare(work, f, body.dy.affine);
    }
    const bool aligned =
        body.dy.aligned() && cuda::aligned_for_packs(body.x) && cuda::aligned_for_packs(dx);
    if (sums == nullptr) return over_elements<T>(work, aligned, body);
    in_packs<T>(work, aligned, [&]<int kWidth>(const auto& cells) {
      const ChannelGrid grid(cells);
      LAUNCH((grad_data_sums_kernel<T, kWidth>), grid_of(grid), work.stream,
             ChannelWalk(cells, grid), body, partials_of(work));
      LAUNCH((finish_grad_data_sums<T>), grid_over(channels), work.stream, partials_of(work),
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
