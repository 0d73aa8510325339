// A position is the work of one warp where its scores lie one behind the other, and of one thread
// where neighbouring positions do. Sums run in double, in an order that the shape alone gives.
#include <cmath>
#include <limits>

#include "ops/core/cuda.cuh"
#include "ops/cross_entropy/cross_entropy_cuda.h"

namespace sardonyx::ops::cross_entropy {

namespace {

using cuda::for_elements;
using cuda::Grid;
using cuda::kBlock;
using cuda::kWarp;

// Blocks that sum up; the workspace holds two numbers of each, and two totals.
constexpr int64_t kMostBlocks = 132 * 4;

// The part of a thread in the position that its lanes share.
template <int kLanes>
struct Team {
  __device__ static int64_t first_position() {
    return (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kLanes;
  }
  __device__ static int64_t step() { return static_cast<int64_t>(gridDim.x) * blockDim.x / kLanes; }
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % kLanes; }
  template <class T>
  __device__ static T sum(T value) {
    if constexpr (kLanes == kWarp) value = cuda::warp_sum(value);
    return value;
  }
  template <class T>
  __device__ static T max(T value) {
    if constexpr (kLanes == kWarp) value = cuda::warp_max(value);
    return value;
  }
};

template <class T>
struct Labels {
  Scored s;

  __device__ int64_t label(int64_t position) const {
    switch (s.label_dtype) {
      case graph::DType::kInt32:
        return static_cast<const int32_t*>(s.labels)[position];
      case graph::DType::kUint8:
        return static_cast<const uint8_t*>(s.labels)[position];
      default:
        return static_cast<const int64_t*>(s.labels)[position];
    }
  }
  __device__ bool ignored(int64_t y) const { return s.has_ignore != 0 && y == s.ignore; }
  __device__ bool known(int64_t y) const { return y >= 0 && y < s.classes; }
  __device__ double weight(int64_t c) const {
    return s.weights == nullptr ? 1.0 : static_cast<double>(static_cast<const T*>(s.weights)[c]);
  }
  __device__ int64_t first_element(int64_t position) const {
    return position / s.inner * s.classes * s.inner + position % s.inner;
  }
};

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// --- Loss

// log of the sum of exp(x), in two parts: x - max - log_sum keeps all digits.
template <class T>
struct LogSum {
  T max;
  double log_sum;
  __device__ double of(T x) const { return static_cast<double>(x - max) - log_sum; }
};

// The maximum passes NaN over, the sum doesn't.
template <class T, int kLanes>
__device__ LogSum<T> log_sum_of(const T* x, int64_t classes, int64_t stride) {
  T max = static_cast<T>(-kInfinity);
  for (int64_t c = Team<kLanes>::lane(); c < classes; c += kLanes) {
    const T value = x[c * stride];
    max = value > max ? value : max;
  }
  max = Team<kLanes>::max(max);
  double sum = 0;
  for (int64_t c = Team<kLanes>::lane(); c < classes; c += kLanes) {
    sum += static_cast<double>(std::exp(x[c * stride] - max));
  }
  return {max, std::log(Team<kLanes>::sum(sum))};
}

template <class T, int kLanes>
struct LossOf {
  Labels<T> labels;
  Scores scores;

  // A weight of zero takes no part, even where the probability is zero too.
  __device__ double term(const T* x, int64_t c, const LogSum<T>& log_sum) const {
    const double weight = labels.weight(c);
    const T value = x[c * labels.s.inner];
    if (weight == 0) return 0.0;
    return -weight * (scores == Scores::kAny ? log_sum.of(value) : static_cast<double>(value));
  }

  // The same in all lanes.
  __device__ double at(const T* x, int64_t y, const LogSum<T>& log_sum) const {
    if (!labels.known(y)) return kNan;
    const double own = term(x, y, log_sum), smoothing = labels.s.smoothing;
    if (smoothing == 0) return own;
    double all = 0;
    for (int64_t c = Team<kLanes>::lane(); c < labels.s.classes; c += kLanes) {
      all += term(x, c, log_sum);
    }
    all = Team<kLanes>::sum(all);
    return (smoothing == 1 ? 0.0 : (1 - smoothing) * own) +
           smoothing / static_cast<double>(labels.s.classes) * all;
  }
};

template <class T, int kLanes>
__global__ void loss_kernel(Scored s, LossOperands o, T* each, double* losses, double* weights) {
  const LossOf<T, kLanes> loss_of{Labels<T>{s}, o.scores};
  const Labels<T>& labels = loss_of.labels;
  T* log_prob = static_cast<T*>(o.log_prob);
  const int lane = Team<kLanes>::lane();
  double loss_sum = 0, weight_sum = 0;
  const int64_t count = s.rows * s.inner;
  for (int64_t p = Team<kLanes>::first_position(); p < count; p += Team<kLanes>::step()) {
    const int64_t first = labels.first_element(p), y = labels.label(p);
    const T* x = static_cast<const T*>(o.x) + first;
    LogSum<T> log_sum{};
    if (o.scores == Scores::kAny) log_sum = log_sum_of<T, kLanes>(x, s.classes, s.inner);
    for (int64_t c = lane; log_prob != nullptr && c < s.classes; c += kLanes) {
      log_prob[first + c * s.inner] = static_cast<T>(log_sum.of(x[c * s.inner]));
    }
    const bool counts = !labels.ignored(y);
    const double loss = counts ? loss_of.at(x, y, log_sum) : 0.0;
    if (lane != 0) continue;
    if (each != nullptr) each[p] = static_cast<T>(loss);
    if (!counts) continue;
    loss_sum += loss;
    weight_sum += labels.known(y) ? labels.weight(y) : 0.0;
  }
  loss_sum = cuda::block_sum(loss_sum);
  weight_sum = cuda::block_sum(weight_sum);
  if (threadIdx.x != 0) return;
  losses[blockIdx.x] = loss_sum;
  weights[blockIdx.x] = weight_sum;
}

// One block.
__device__ inline double total_of(const double* parts, int64_t count) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += kBlock) sum += parts[i];
  return cuda::block_sum(sum);
}

template <class T>
__global__ void finish_loss(Reduce reduce, int64_t blocks, const double* losses,
                            const double* weights, T* loss_out, T* weight_out) {
  const double loss = total_of(losses, blocks), weight = total_of(weights, blocks);
  if (threadIdx.x != 0) return;
  // A mean over nothing is 0; the loss of a wrong label stays NaN.
  const bool nothing = weight == 0 && loss == loss;
  const double mean = nothing ? 0.0 : loss / weight;
  const double reduced = reduce == Reduce::kMean ? mean : loss;
  if (loss_out != nullptr) *loss_out = static_cast<T>(reduced);
  if (weight_out != nullptr) *weight_out = static_cast<T>(weight);
}

// --- Gradient

// totals[0]: the weights of all labels that count, totals[1]: those of all classes. One block.
template <class T>
__global__ void totals_kernel(Scored s, double* totals) {
  const Labels<T> labels{s};
  double counted = 0, classes = 0;
  for (int64_t p = threadIdx.x; p < s.rows * s.inner; p += kBlock) {
    const int64_t y = labels.label(p);
    if (!labels.ignored(y)) counted += labels.known(y) ? labels.weight(y) : 0.0;
  }
  for (int64_t c = threadIdx.x; c < s.classes; c += kBlock) classes += labels.weight(c);
  counted = cuda::block_sum(counted);
  classes = cuda::block_sum(classes);
  if (threadIdx.x != 0) return;
  totals[0] = counted;
  totals[1] = classes;
}

// With p = exp(log_prob), W = sum of all class weights, s = smoothing:
//   dx[c] = dy (((1-s) w[y] + s/C W) p[c] - (1-s) w[y] [c = y] - s/C w[c])
// and without log_prob dx[y] = -dy w[y].
template <class T>
__global__ void gradient_kernel(Scored s, Reduce reduce, const T* dy, const T* log_prob,
                                const double* totals, T* dx) {
  const Labels<T> labels{s};
  const double total = reduce == Reduce::kMean ? totals[0] : 1.0;
  const double factor = total == 0 ? 0.0 : 1 / total;
  const double spread = s.smoothing / static_cast<double>(s.classes);
  const double spread_total = s.smoothing == 0 ? 0.0 : spread * totals[1];
  for_elements(s.rows * s.classes * s.inner, [&](int64_t i) {
    const int64_t c = i / s.inner % s.classes;
    const int64_t position = i / (s.classes * s.inner) * s.inner + i % s.inner;
    const int64_t y = labels.label(position);
    if (labels.ignored(y)) {
      dx[i] = T(0);
      return;
    }
    if (!labels.known(y)) {
      dx[i] = static_cast<T>(kNan);
      return;
    }
    const double incoming =
        static_cast<double>(dy[reduce == Reduce::kNone ? position : 0]) * factor;
    const double own = incoming * (1 - s.smoothing) * labels.weight(y);
    if (log_prob == nullptr) {
      dx[i] = c == y ? static_cast<T>(-own) : T(0);
      return;
    }
    const T scale =
        static_cast<T>(incoming * ((1 - s.smoothing) * labels.weight(y) + spread_total));
    T out = std::exp(log_prob[i]) * scale;
    if (c == y) out = static_cast<T>(static_cast<double>(out) - own);
    if (spread != 0) {
      out = static_cast<T>(static_cast<double>(out) - incoming * spread * labels.weight(c));
    }
    dx[i] = out;
  });
}

// --- CountCorrect

// Class c is better than y with the larger score (NaN counts as larger) or, at equal scores, the
// lower number.
template <class T, int kLanes>
__global__ void count_kernel(Scored s, int64_t k, const T* x, double* parts) {
  const Labels<T> labels{s};
  double correct = 0;
  const int64_t count = s.rows * s.inner;
  for (int64_t p = Team<kLanes>::first_position(); p < count; p += Team<kLanes>::step()) {
    const int64_t y = labels.label(p);
    if (labels.ignored(y) || !labels.known(y)) continue;
    const T* scores = x + labels.first_element(p);
    const T own = scores[y * s.inner];
    int better = 0;
    for (int64_t c = Team<kLanes>::lane(); c < s.classes; c += kLanes) {
      const T other = scores[c * s.inner];
      const bool ahead = !(other <= own) || (other == own && c < y);
      better += c != y && ahead ? 1 : 0;
    }
    better = Team<kLanes>::sum(better);
    if (Team<kLanes>::lane() == 0 && better < k) correct += 1;
  }
  correct = cuda::block_sum(correct);
  if (threadIdx.x == 0) parts[blockIdx.x] = correct;
}

template <class T>
__global__ void finish_count(int64_t blocks, const double* parts, T* count) {
  const double total = total_of(parts, blocks);
  if (threadIdx.x == 0) *count = static_cast<T>(total);
}

// At least one block, so that there is a sum of nothing.
Grid team_grid(int64_t positions, int lanes) {
  const int64_t blocks = (positions * lanes + kBlock - 1) / kBlock;
  return {static_cast<unsigned>(blocks < 1 ? 1 : blocks > kMostBlocks ? kMostBlocks : blocks)};
}

// Calls f.template operator()<T, lanes>().
template <class F>
void by_team(const Scored& s, const F& f) {
  cuda::dispatch_float(s.dtype, [&]<class T>() {
    if (s.inner == 1) return f.template operator()<T, kWarp>();
    f.template operator()<T, 1>();
  });
}

}  // namespace

size_t Scored::workspace_bytes() { return (2 * kMostBlocks + 2) * sizeof(double); }

void launch_loss(cuda::Stream stream, const Scored& s, const LossOperands& o) {
  by_team(s, [&]<class T, int kLanes>() {
    const Grid grid = team_grid(s.positions(), kLanes);
    const bool each = o.reduce == Reduce::kNone;
    double *losses = s.workspace, *weights = losses + kMostBlocks;
    LAUNCH((loss_kernel<T, kLanes>), grid, stream, s, o, each ? static_cast<T*>(o.loss) : nullptr,
           losses, weights);
    LAUNCH((finish_loss<T>), Grid{}, stream, o.reduce, grid.x, losses, weights,
           each ? nullptr : static_cast<T*>(o.loss), static_cast<T*>(o.weight));
  });
}

void launch_gradient(cuda::Stream stream, const Scored& s, Reduce reduce, const void* dy,
                     const void* log_prob, void* dx) {
  const int64_t n = s.positions() * s.classes;
  if (n == 0) return;
  double* totals = s.workspace;
  cuda::dispatch_float(s.dtype, [&]<class T>() {
    if (reduce == Reduce::kMean || s.smoothing != 0) {
      LAUNCH((totals_kernel<T>), Grid{}, stream, s, totals);
    }
    LAUNCH((gradient_kernel<T>), cuda::grid_over(n), stream, s, reduce, static_cast<const T*>(dy),
           static_cast<const T*>(log_prob), totals, static_cast<T*>(dx));
  });
}

void launch_count(cuda::Stream stream, const Scored& s, int64_t k, const void* x, void* count) {
  by_team(s, [&]<class T, int kLanes>() {
    const Grid grid = team_grid(s.positions(), kLanes);
    LAUNCH((count_kernel<T, kLanes>), grid, stream, s, k, static_cast<const T*>(x), s.workspace);
    LAUNCH((finish_count<T>), Grid{}, stream, grid.x, s.workspace, static_cast<T*>(count));
  });
}

}  // namespace sardonyx::ops::cross_entropy
