// The loops in vectors, compiled once per instruction set. Runs of a few thousand elements are
// added in T, the runs in double. The mean is taken away in two parts, its value in T and the rest,
// so that x with a large mean keeps all its digits.
#include "ops/norm/norm_loops.h"

namespace sardonyx::ops::norm::SARDONYX_ISA {

namespace {

constexpr int kWide = 16;         // partial sums, or images of a lane block
constexpr int64_t kRun = 4096;    // elements between two additions in double
constexpr int64_t kLaneRun = 64;  // the same per lane

double inverse_of(double square_sum, int64_t n, double epsilon) {
  return 1 / __builtin_sqrt(square_sum / static_cast<double>(n) + epsilon);
}

// --- Plain

// Takes the mean away from an element.
template <class T>
struct Centred {
  explicit Centred(double mean)
      : first(static_cast<T>(mean)), rest(static_cast<T>(mean - static_cast<double>(first))) {}
  T operator()(T x) const { return (x - first) - rest; }
  T first, rest;
};

// Sum of f(i), i < n.
template <class T, class F>
double sum_of(int64_t n, F f) {
  double total = 0;
  int64_t i = 0;
  while (n - i >= kWide) {
    const int64_t left = n - i;
    const int64_t end = i + (left < kRun ? left : kRun) / kWide * kWide;
    T part[kWide] = {};
    for (; i < end; i += kWide) {
      for (int j = 0; j < kWide; ++j) part[j] += f(i + j);
    }
    for (int j = 0; j < kWide; ++j) total += static_cast<double>(part[j]);
  }
  for (; i < n; ++i) total += static_cast<double>(f(i));
  return total;
}

template <class T>
void statistics(Spans s, Centring centring, double epsilon, const T* x, Statistics* result) {
  const int64_t n = s.params * s.span;
  result->mean = 0;
  if (centring == Centring::kMean) {
    result->mean = sum_of<T>(n, [x](int64_t i) { return x[i]; }) / static_cast<double>(n);
  }
  const Centred<T> centred(result->mean);
  const double squares = sum_of<T>(n, [x, centred](int64_t i) {
    const T d = centred(x[i]);
    return d * d;
  });
  result->inverse = inverse_of(squares, n, epsilon);
}

template <class T>
void forward(Spans s, const Statistics* of, const T* x, const T* scale, const T* bias, T* y) {
  const Centred<T> centred(of->mean);
  const T inverse = static_cast<T>(of->inverse);
  if (s.span == 1 && bias == nullptr) {
    for (int64_t p = 0; p < s.params; ++p) y[p] = centred(x[p]) * inverse * scale[p];
  } else if (s.span == 1) {
    for (int64_t p = 0; p < s.params; ++p) y[p] = centred(x[p]) * inverse * scale[p] + bias[p];
  } else {
    for (int64_t p = 0; p < s.params; ++p, x += s.span, y += s.span) {
      const T factor = inverse * scale[p], shift = bias == nullptr ? T{0} : bias[p];
      for (int64_t i = 0; i < s.span; ++i) y[i] = centred(x[i]) * factor + shift;
    }
  }
}

template <class T>
void sums(Spans s, const Statistics* of, const T* x, const T* scale, const T* dy, Sums* result) {
  const Centred<T> centred(of->mean);
  if (s.span == 1) {
    result->plain = sum_of<T>(s.params, [=](int64_t i) { return scale[i] * dy[i]; });
    result->weighted =
        sum_of<T>(s.params, [=](int64_t i) { return scale[i] * dy[i] * centred(x[i]); });
    return;
  }
  *result = {};
  for (int64_t p = 0; p < s.params; ++p, x += s.span, dy += s.span) {
    const double by = static_cast<double>(scale[p]);
    result->plain += by * sum_of<T>(s.span, [dy](int64_t i) { return dy[i]; });
    result->weighted += by * sum_of<T>(s.span, [=](int64_t i) { return dy[i] * centred(x[i]); });
  }
}

template <class T>
void backward(Spans s, const Statistics* of, const Slopes* slopes, const T* x, const T* scale,
              const T* dy, T* dx) {
  const Centred<T> centred(of->mean);
  const T inverse = static_cast<T>(of->inverse);
  const T shift = static_cast<T>(slopes->shift), slope = static_cast<T>(slopes->slope);
  if (s.span == 1) {
    for (int64_t p = 0; p < s.params; ++p) {
      dx[p] = inverse * scale[p] * dy[p] - shift - slope * centred(x[p]);
    }
    return;
  }
  for (int64_t p = 0; p < s.params; ++p, x += s.span, dy += s.span, dx += s.span) {
    const T factor = inverse * scale[p];
    for (int64_t i = 0; i < s.span; ++i) dx[i] = factor * dy[i] - shift - slope * centred(x[i]);
  }
}

template <class T>
void scale_sums(Spans s, const Statistics* of, int, const T* x, const T* dy, double* dscale) {
  const Centred<T> centred(of->mean);
  if (s.span == 1) {
    for (int64_t p = 0; p < s.params; ++p) {
      dscale[p] += of->inverse * static_cast<double>(dy[p] * centred(x[p]));
    }
    return;
  }
  for (int64_t p = 0; p < s.params; ++p, x += s.span, dy += s.span) {
    dscale[p] += of->inverse * sum_of<T>(s.span, [=](int64_t i) { return dy[i] * centred(x[i]); });
  }
}

// --- Lanes

template <class T>
struct LaneMeans {
  explicit LaneMeans(const Statistics* of) {
    for (int j = 0; j < kWide; ++j) {
      first[j] = static_cast<T>(of[j].mean);
      rest[j] = static_cast<T>(of[j].mean - static_cast<double>(first[j]));
    }
  }
  T operator()(T x, int j) const { return (x - first[j]) - rest[j]; }
  T first[kWide], rest[kWide];
};

// total[j] += sum of f(i, j), i < n.
template <class T, class F>
void lane_sums(int64_t n, F f, double* total) {
  for (int64_t i = 0; i < n;) {
    const int64_t end = n - i < kLaneRun ? n : i + kLaneRun;
    T part[kWide] = {};
    for (; i < end; ++i) {
      for (int j = 0; j < kWide; ++j) part[j] += f(i, j);
    }
    for (int j = 0; j < kWide; ++j) total[j] += static_cast<double>(part[j]);
  }
}

template <class T>
void statistics_of_lanes(Spans s, Centring centring, double epsilon, const T* x,
                         Statistics* result) {
  const int64_t n = s.params * s.span;
  double total[kWide] = {}, squares[kWide] = {};
  if (centring == Centring::kMean) {
    lane_sums<T>(
        n, [x](int64_t i, int j) { return x[i * kWide + j]; }, total);
  }
  for (int j = 0; j < kWide; ++j) result[j].mean = total[j] / static_cast<double>(n);
  const LaneMeans<T> centred(result);
  lane_sums<T>(
      n,
      [x, &centred](int64_t i, int j) {
        const T d = centred(x[i * kWide + j], j);
        return d * d;
      },
      squares);
  for (int j = 0; j < kWide; ++j) result[j].inverse = inverse_of(squares[j], n, epsilon);
}

template <class T>
void forward_of_lanes(Spans s, const Statistics* of, const T* x, const T* scale, const T* bias,
                      T* y) {
  const LaneMeans<T> centred(of);
  for (int64_t p = 0; p < s.params; ++p) {
    T factor[kWide];
    const T shift = bias == nullptr ? T{0} : bias[p];
    for (int j = 0; j < kWide; ++j) factor[j] = static_cast<T>(of[j].inverse) * scale[p];
    for (int64_t i = 0; i < s.span; ++i, x += kWide, y += kWide) {
      for (int j = 0; j < kWide; ++j) y[j] = centred(x[j], j) * factor[j] + shift;
    }
  }
}

template <class T>
void sums_of_lanes(Spans s, const Statistics* of, const T* x, const T* scale, const T* dy,
                   Sums* result) {
  const LaneMeans<T> centred(of);
  double plain[kWide] = {}, weighted[kWide] = {};
  for (int64_t p = 0; p < s.params; ++p) {
    const T by = scale[p];
    const T *xp = x + p * s.span * kWide, *dyp = dy + p * s.span * kWide;
    lane_sums<T>(
        s.span, [=](int64_t i, int j) { return by * dyp[i * kWide + j]; }, plain);
    lane_sums<T>(
        s.span,
        [=, &centred](int64_t i, int j) {
          return by * dyp[i * kWide + j] * centred(xp[i * kWide + j], j);
        },
        weighted);
  }
  for (int j = 0; j < kWide; ++j) result[j] = {plain[j], weighted[j]};
}

template <class T>
void backward_of_lanes(Spans s, const Statistics* of, const Slopes* slopes, const T* x,
                       const T* scale, const T* dy, T* dx) {
  const LaneMeans<T> centred(of);
  T shift[kWide], slope[kWide];
  for (int j = 0; j < kWide; ++j) {
    shift[j] = static_cast<T>(slopes[j].shift);
    slope[j] = static_cast<T>(slopes[j].slope);
  }
  for (int64_t p = 0; p < s.params; ++p) {
    T factor[kWide];
    for (int j = 0; j < kWide; ++j) factor[j] = static_cast<T>(of[j].inverse) * scale[p];
    for (int64_t i = 0; i < s.span; ++i, x += kWide, dy += kWide, dx += kWide) {
      for (int j = 0; j < kWide; ++j) {
        dx[j] = factor[j] * dy[j] - shift[j] - slope[j] * centred(x[j], j);
      }
    }
  }
}

template <class T>
void scale_sums_of_lanes(Spans s, const Statistics* of, int valid, const T* x, const T* dy,
                         double* dscale) {
  const LaneMeans<T> centred(of);
  for (int64_t p = 0; p < s.params; ++p, x += s.span * kWide, dy += s.span * kWide) {
    double products[kWide] = {};
    lane_sums<T>(
        s.span,
        [=, &centred](int64_t i, int j) {
          return dy[i * kWide + j] * centred(x[i * kWide + j], j);
        },
        products);
    for (int j = 0; j < valid; ++j) dscale[p] += of[j].inverse * products[j];
  }
}

template <class T>
constexpr Loops<T> kPlain = {statistics<T>, forward<T>, sums<T>, backward<T>, scale_sums<T>};
template <class T>
constexpr Loops<T> kLanes = {statistics_of_lanes<T>, forward_of_lanes<T>, sums_of_lanes<T>,
                             backward_of_lanes<T>, scale_sums_of_lanes<T>};

}  // namespace

template <class T>
const Loops<T>& plain_loops() {
  return kPlain<T>;
}
template <class T>
const Loops<T>& lane_loops() {
  return kLanes<T>;
}
template const Loops<float>& plain_loops<float>();
template const Loops<double>& plain_loops<double>();
template const Loops<float>& lane_loops<float>();
template const Loops<double>& lane_loops<double>();

}  // namespace sardonyx::ops::norm::SARDONYX_ISA
