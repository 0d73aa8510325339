// The vector loops, compiled once per instruction set; batch_norm_cpu.cc picks a copy.
//
// Sums are kept in double from the first element on: the variance is a small difference of large
// numbers.
#include "ops/batch_norm/batch_norm.h"
#include "ops/core/lanes_vector.h"

namespace sardonyx::ops::batch_norm::SARDONYX_ISA {

namespace {

using lanes::SARDONYX_ISA::kVectorBytes;

constexpr int kWidth = kVectorBytes / static_cast<int>(sizeof(double));
typedef double Doubles __attribute__((vector_size(kVectorBytes)));

template <class T>
struct Few {
  typedef T Vector __attribute__((vector_size(kWidth * sizeof(T)), aligned(alignof(T)), may_alias));
};

template <class T>
[[gnu::always_inline]] inline Doubles load(const T* x) {
  return __builtin_convertvector(*reinterpret_cast<const typename Few<T>::Vector*>(x), Doubles);
}

[[gnu::always_inline]] inline double total(Doubles v) {
  double sum = 0;
  for (int i = 0; i < kWidth; ++i) sum += v[i];
  return sum;
}

// Two sums that are made together: of x and x * x, or of dy and dy * (x - mean).
struct Pair {
  Doubles first[2] = {}, second[2] = {};
  [[gnu::always_inline]] void add(int i, Doubles a, Doubles b) {
    first[i] += a;
    second[i] += a * b;
  }
};

// Elements i ... n - 1 one by one, the others by vectors. a_of and b_of take an index and a width.
template <class T>
[[gnu::always_inline]] inline void add_plane(const T* x, int64_t n, Pair& pair, double* rest) {
  int64_t i = 0;
  for (; i + 2 * kWidth <= n; i += 2 * kWidth) {
    const Doubles a = load(x + i), b = load(x + i + kWidth);
    pair.add(0, a, a);
    pair.add(1, b, b);
  }
  for (; i < n; ++i) {
    const double a = static_cast<double>(x[i]);
    rest[0] += a;
    rest[1] += a * a;
  }
}

template <class T>
[[gnu::always_inline]] inline void add_plane(const T* dy, const T* x, double mean, int64_t n,
                                             Pair& pair, double* rest) {
  const Doubles means = mean - Doubles{};
  int64_t i = 0;
  for (; i + 2 * kWidth <= n; i += 2 * kWidth) {
    pair.add(0, load(dy + i), load(x + i) - means);
    pair.add(1, load(dy + i + kWidth), load(x + i + kWidth) - means);
  }
  for (; i < n; ++i) {
    const double a = static_cast<double>(dy[i]);
    rest[0] += a;
    rest[1] += a * (static_cast<double>(x[i]) - mean);
  }
}

// Channels that are walked together, so that what is read of a row is some kilobytes long.
constexpr int64_t kTile = 16;

// `add(pair, rest, row, channel)` adds one plane.
template <class F>
[[gnu::always_inline]] inline void over_planes(int64_t rows, int64_t channels, double* sums,
                                               double* products, const F& add) {
  for (int64_t begin = 0; begin < channels; begin += kTile) {
    const int64_t count = channels - begin < kTile ? channels - begin : kTile;
    Pair pairs[kTile];
    double rest[kTile][2] = {};
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t c = 0; c < count; ++c) {
        Pair pair = pairs[c];
        add(pair, rest[c], row, begin + c);
        pairs[c] = pair;
      }
    }
    for (int64_t c = 0; c < count; ++c) {
      sums[begin + c] += rest[c][0] + total(pairs[c].first[0] + pairs[c].first[1]);
      products[begin + c] += rest[c][1] + total(pairs[c].second[0] + pairs[c].second[1]);
    }
  }
}

// One element per row and channel: channels are the vector.
template <class T>
void column_sums(const T* x, int64_t rows, int64_t stride, int64_t channels, double* sums,
                 double* squares) {
  int64_t c = 0;
  for (; c + kWidth <= channels; c += kWidth) {
    Doubles first{}, second{};
    for (int64_t row = 0; row < rows; ++row) {
      const Doubles a = load(x + row * stride + c);
      first += a;
      second += a * a;
    }
    for (int i = 0; i < kWidth; ++i) {
      sums[c + i] += first[i];
      squares[c + i] += second[i];
    }
  }
  for (; c < channels; ++c) {
    for (int64_t row = 0; row < rows; ++row) {
      const double a = static_cast<double>(x[row * stride + c]);
      sums[c] += a;
      squares[c] += a * a;
    }
  }
}

template <class T>
void sums_of(const T* x, int64_t rows, int64_t stride, int64_t channels, int64_t plane,
             double* sums, double* squares) {
  if (plane == 1) return column_sums(x, rows, stride, channels, sums, squares);
  over_planes(
      rows, channels, sums, squares,
      [&](Pair & pair, double* rest, int64_t row, int64_t c) __attribute__((always_inline)) {
        add_plane(x + row * stride + c * plane, plane, pair, rest);
      });
}

template <class T>
void column_grad_sums(const T* dy, const T* x, const double* mean, int64_t rows, int64_t stride,
                      int64_t channels, double* sums, double* products) {
  int64_t c = 0;
  for (; c + kWidth <= channels; c += kWidth) {
    const Doubles means = load(mean + c);
    Doubles first{}, second{};
    for (int64_t row = 0; row < rows; ++row) {
      const Doubles a = load(dy + row * stride + c);
      first += a;
      second += a * (load(x + row * stride + c) - means);
    }
    for (int i = 0; i < kWidth; ++i) {
      sums[c + i] += first[i];
      products[c + i] += second[i];
    }
  }
  for (; c < channels; ++c) {
    for (int64_t row = 0; row < rows; ++row) {
      const double a = static_cast<double>(dy[row * stride + c]);
      sums[c] += a;
      products[c] += a * (static_cast<double>(x[row * stride + c]) - mean[c]);
    }
  }
}

template <class T>
void grad_sums_of(const T* dy, const T* x, const double* mean, int64_t rows, int64_t stride,
                  int64_t channels, int64_t plane, double* sums, double* products) {
  if (plane == 1) {
    return column_grad_sums(dy, x, mean, rows, stride, channels, sums, products);
  }
  over_planes(
      rows, channels, sums, products,
      [&](Pair & pair, double* rest, int64_t row, int64_t c) __attribute__((always_inline)) {
        const int64_t at = row * stride + c * plane;
        add_plane(dy + at, x + at, mean[c], plane, pair, rest);
      });
}

template <class T>
void apply(const T* x, const Affine<T>& f, int64_t channels, int64_t plane, T* y) {
  if (plane == 1) {
#pragma GCC ivdep
    for (int64_t c = 0; c < channels; ++c) y[c] = (x[c] - f.mean[c]) * f.a[c] + f.b[c];
    return;
  }
  for (int64_t c = 0; c < channels; ++c, x += plane, y += plane) {
    const T mean = f.mean[c], a = f.a[c], b = f.b[c];
#pragma GCC ivdep
    for (int64_t i = 0; i < plane; ++i) y[i] = (x[i] - mean) * a + b;
  }
}

template <class T>
void scale(const T* dy, const T* a, int64_t channels, int64_t plane, T* dx) {
  for (int64_t c = 0; c < channels; ++c, dy += plane, dx += plane) {
    const T factor = a[c];
#pragma GCC ivdep
    for (int64_t i = 0; i < plane; ++i) dx[i] = dy[i] * factor;
  }
}

template <class T>
void grad_data(const T* dy, const T* x, const Backward<T>& f, int64_t channels, int64_t plane,
               T* dx) {
  if (x == nullptr) return scale(dy, f.a, channels, plane, dx);
  if (plane == 1) {
#pragma GCC ivdep
    for (int64_t c = 0; c < channels; ++c) {
      dx[c] = f.a[c] * dy[c] - ((x[c] - f.mean[c]) * f.k[c] + f.c[c]);
    }
    return;
  }
  for (int64_t c = 0; c < channels; ++c, dy += plane, x += plane, dx += plane) {
    const T a = f.a[c], mean = f.mean[c], k = f.k[c], rest = f.c[c];
#pragma GCC ivdep
    for (int64_t i = 0; i < plane; ++i) dx[i] = a * dy[i] - ((x[i] - mean) * k + rest);
  }
}

template <class T>
constexpr Loops<T> kLoops = {sums_of<T>, grad_sums_of<T>, apply<T>, grad_data<T>};

}  // namespace

template <class T>
const Loops<T>& loops() {
  return kLoops<T>;
}
template const Loops<float>& loops<float>();
template const Loops<double>& loops<double>();

}  // namespace sardonyx::ops::batch_norm::SARDONYX_ISA
