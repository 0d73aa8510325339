// The vector loops, compiled once per instruction set; batch_norm_cpu.cc picks a copy.
//
// Sums are kept in double from the first element on: the variance is a small difference of large
// numbers. No product is fused with a sum (ops/CMakeLists.txt): the sign of what a gradient is
// masked by must be that of the y that was written.
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

// Elements from the first that fills no vector on go one by one, the others by vectors.
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

// --- gradients as they are read

enum class Terms : uint8_t { kOne, kTwo };
enum class Gate : uint8_t { kOpen, kByY, kByAffine };

// V is T or a few of them, which stand anywhere (as a template's argument a type loses its
// alignment of one T).
template <class V, class T>
[[gnu::always_inline]] inline V get(const T* from) {
  V v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}

template <class V, class T>
[[gnu::always_inline]] inline void put(T* to, V v) {
  __builtin_memcpy(to, &v, sizeof v);
}

template <class V>
struct Line {
  V mean, a, b;
  [[gnu::always_inline]] V at(V x) const { return (x - mean) * a + b; }
};

// That of a channel, of as many channels as V holds, or nothing where there is no affine.
template <class V, Gate kGate, class T>
[[gnu::always_inline]] inline Line<V> line_of_one(const Affine<T>& f, int64_t c) {
  if constexpr (kGate != Gate::kByAffine) return {V{}, V{}, V{}};
  return {f.mean[c] - V{}, f.a[c] - V{}, f.b[c] - V{}};
}
template <class V, Gate kGate, class T>
[[gnu::always_inline]] inline Line<V> line_of_several(const Affine<T>& f, int64_t c) {
  if constexpr (kGate != Gate::kByAffine) return {V{}, V{}, V{}};
  return {get<V>(f.mean + c), get<V>(f.a + c), get<V>(f.b + c)};
}

// Comparisons are written so that NaN comes through.
template <class V, Terms kTerms, Gate kGate, class T>
[[gnu::always_inline]] inline V gradient_at(const Incoming<T>& g, int64_t i, V x,
                                            const Line<V>& line) {
  V d = get<V>(g.dy + i);
  if constexpr (kTerms == Terms::kTwo) d += get<V>(g.second + i);
  if constexpr (kGate == Gate::kByY) d = get<V>(g.y + i) <= V{} ? V{} : d;
  if constexpr (kGate == Gate::kByAffine) d = line.at(x) <= V{} ? V{} : d;
  return d;
}

// Calls f.template operator()<terms, gate>().
template <class T, class F>
[[gnu::always_inline]] inline void by_form(const Incoming<T>& g, const F& f) {
  const Gate gate = g.y != nullptr          ? Gate::kByY
                    : g.affine.a != nullptr ? Gate::kByAffine
                                            : Gate::kOpen;
  const auto with = [&]<Terms kTerms>() {
    if (gate == Gate::kByY) return f.template operator()<kTerms, Gate::kByY>();
    if (gate == Gate::kByAffine) return f.template operator()<kTerms, Gate::kByAffine>();
    f.template operator()<kTerms, Gate::kOpen>();
  };
  if (g.second != nullptr) {
    with.template operator()<Terms::kTwo>();
  } else {
    with.template operator()<Terms::kOne>();
  }
}

// --- sums

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
void sums_of(const T* x, const Extent& e, double* sums, double* squares) {
  if (e.plane == 1) return column_sums(x, e.rows, e.stride, e.channels, sums, squares);
  over_planes(
      e.rows, e.channels, sums, squares,
      [&](Pair & pair, double* rest, int64_t row, int64_t c) __attribute__((always_inline)) {
        add_plane(x + row * e.stride + c * e.plane, e.plane, pair, rest);
      });
}

// The two sums of one gradient and what goes with it, V at a time.
template <class T, Terms kTerms, Gate kGate>
struct GradSums {
  const Incoming<T> g;
  const T* x;
  const double* mean;
  const Extent e;
  double *sums, *products;
  T* dz;

  typedef typename Few<T>::Vector V;

  // Writes the gradient of elements i ... and returns it.
  template <class Numbers>
  [[gnu::always_inline]] Numbers read(int64_t i, Numbers at, const Line<Numbers>& line) const {
    const Numbers d = gradient_at<Numbers, kTerms, kGate>(g, i, at, line);
    if (dz != nullptr) put(dz + i, d);
    return d;
  }

  [[gnu::always_inline]] void few(int64_t i, Doubles means, const Line<V>& line, Pair& pair,
                                  int place) const {
    const V at = get<V>(x + i);
    pair.add(place, __builtin_convertvector(read<V>(i, at, line), Doubles),
             __builtin_convertvector(at, Doubles) - means);
  }

  [[gnu::always_inline]] void one(int64_t i, int64_t c, double& sum, double& product) const {
    const double d = static_cast<double>(read<T>(i, x[i], line_of_one<T, kGate>(g.affine, c)));
    sum += d;
    product += d * (static_cast<double>(x[i]) - mean[c]);
  }

  [[gnu::always_inline]] void planes() const {
    over_planes(
        e.rows, e.channels, sums, products,
        [&](Pair & pair, double* rest, int64_t row, int64_t c) __attribute__((always_inline)) {
          const Doubles means = mean[c] - Doubles{};
          const auto line = line_of_one<V, kGate>(g.affine, c);
          int64_t i = row * e.stride + c * e.plane;
          const int64_t end = i + e.plane;
          for (; i + 2 * kWidth <= end; i += 2 * kWidth) {
            few(i, means, line, pair, 0);
            few(i + kWidth, means, line, pair, 1);
          }
          for (; i < end; ++i) one(i, c, rest[0], rest[1]);
        });
  }

  // One element per row and channel: channels are the vector.
  [[gnu::always_inline]] void columns() const {
    int64_t c = 0;
    for (; c + kWidth <= e.channels; c += kWidth) {
      const Doubles means = load(mean + c);
      const auto line = line_of_several<V, kGate>(g.affine, c);
      Pair pair;
      for (int64_t row = 0; row < e.rows; ++row) few(row * e.stride + c, means, line, pair, 0);
      for (int i = 0; i < kWidth; ++i) {
        sums[c + i] += pair.first[0][i];
        products[c + i] += pair.second[0][i];
      }
    }
    for (; c < e.channels; ++c) {
      for (int64_t row = 0; row < e.rows; ++row) one(row * e.stride + c, c, sums[c], products[c]);
    }
  }
};

template <class T>
void grad_sums_of(const Incoming<T>& g, const T* x, const double* mean, const Extent& e,
                  double* sums, double* products, T* dz) {
  by_form(g, [&]<Terms kTerms, Gate kGate>() {
    const GradSums<T, kTerms, kGate> walk{g, x, mean, e, sums, products, dz};
    e.plane == 1 ? walk.columns() : walk.planes();
  });
}

// --- row by row

template <Activation kActivation, class T>
[[gnu::always_inline]] inline T activated(T y) {
  return kActivation == Activation::kRelu && y < T(0) ? T(0) : y;
}

template <class T, Terms kTerms, Activation kActivation>
void apply_as(const T* x, const T* addend, const Affine<T>& f, int64_t channels, int64_t plane,
              T* y) {
  const auto write = [&](int64_t i, const Line<T>& line) __attribute__((always_inline)) {
    T value = line.at(x[i]);
    if constexpr (kTerms == Terms::kTwo) value += addend[i];
    y[i] = activated<kActivation>(value);
  };
  if (plane == 1) {
#pragma GCC ivdep
    for (int64_t c = 0; c < channels; ++c) write(c, {f.mean[c], f.a[c], f.b[c]});
    return;
  }
  for (int64_t c = 0; c < channels; ++c) {
    const Line<T> line{f.mean[c], f.a[c], f.b[c]};
#pragma GCC ivdep
    for (int64_t i = c * plane; i < (c + 1) * plane; ++i) write(i, line);
  }
}

template <class T>
void apply(const T* x, const T* addend, const Affine<T>& f, Activation activation, int64_t channels,
           int64_t plane, T* y) {
  const bool relu = activation == Activation::kRelu;
  const auto as = addend == nullptr ? (relu ? apply_as<T, Terms::kOne, Activation::kRelu>
                                            : apply_as<T, Terms::kOne, Activation::kNone>)
                                    : (relu ? apply_as<T, Terms::kTwo, Activation::kRelu>
                                            : apply_as<T, Terms::kTwo, Activation::kNone>);
  as(x, addend, f, channels, plane, y);
}

enum class Through : uint8_t { kNothing, kStatistics };

template <class V>
struct Slope {
  V a, mean, k, c;
};

template <class T, Terms kTerms, Gate kGate, Through kThrough>
struct GradData {
  const Incoming<T> g;
  const T* x;
  const Backward<T> f;
  const Extent e;
  T* dx;
  double* sums;

  typedef typename Few<T>::Vector V;

  template <class Numbers>
  [[gnu::always_inline]] Numbers write(int64_t i, const Slope<Numbers>& s,
                                       const Line<Numbers>& line) const {
    Numbers at{};
    if constexpr (kThrough == Through::kStatistics) at = get<Numbers>(x + i);
    Numbers d = s.a * gradient_at<Numbers, kTerms, kGate>(g, i, at, line);
    if constexpr (kThrough == Through::kStatistics) d -= (at - s.mean) * s.k + s.c;
    put(dx + i, d);
    return d;
  }

  template <class Numbers>
  [[gnu::always_inline]] Slope<Numbers> slope(int64_t c) const {
    const Numbers zero{};
    if constexpr (kThrough == Through::kNothing) return {f.a[c] - zero, zero, zero, zero};
    return {f.a[c] - zero, f.mean[c] - zero, f.k[c] - zero, f.c[c] - zero};
  }

  [[gnu::always_inline]] void row(int64_t begin) const {
    if (e.plane == 1) {
#pragma GCC ivdep
      for (int64_t c = 0; c < e.channels; ++c) {
        write<T>(begin + c, slope<T>(c), line_of_one<T, kGate>(g.affine, c));
      }
      return;
    }
    for (int64_t c = 0; c < e.channels; ++c) {
      const auto s = slope<T>(c);
      const auto line = line_of_one<T, kGate>(g.affine, c);
      const int64_t first = begin + c * e.plane;
#pragma GCC ivdep
      for (int64_t i = first; i < first + e.plane; ++i) write<T>(i, s, line);
    }
  }

  // Adds the plane of a channel in one row to acc and rest.
  [[gnu::always_inline]] void summed_plane(int64_t row, int64_t c, Doubles* acc,
                                           double& rest) const {
    const auto few = slope<V>(c);
    const auto line = line_of_one<V, kGate>(g.affine, c);
    int64_t i = row * e.stride + c * e.plane;
    const int64_t end = i + e.plane;
    Doubles first = acc[0], second = acc[1];
    for (; i + 2 * kWidth <= end; i += 2 * kWidth) {
      first += __builtin_convertvector(write<V>(i, few, line), Doubles);
      second += __builtin_convertvector(write<V>(i + kWidth, few, line), Doubles);
    }
    for (; i < end; ++i) {
      rest += static_cast<double>(write<T>(i, slope<T>(c), line_of_one<T, kGate>(g.affine, c)));
    }
    acc[0] = first;
    acc[1] = second;
  }

  // With the sums of dx.
  [[gnu::always_inline]] void planes() const {
    for (int64_t begin = 0; begin < e.channels; begin += kTile) {
      const int64_t count = e.channels - begin < kTile ? e.channels - begin : kTile;
      Doubles acc[kTile][2] = {};
      double rest[kTile] = {};
      for (int64_t row = 0; row < e.rows; ++row) {
        for (int64_t c = 0; c < count; ++c) summed_plane(row, begin + c, acc[c], rest[c]);
      }
      for (int64_t c = 0; c < count; ++c) sums[begin + c] += rest[c] + total(acc[c][0] + acc[c][1]);
    }
  }
};

template <class T>
void grad_data(const Incoming<T>& g, const T* x, const Backward<T>& f, const Extent& e, T* dx,
               double* sums) {
  by_form(g, [&]<Terms kTerms, Gate kGate>() {
    const auto run = [&](auto walk) {
      if (sums != nullptr) return walk.planes();
      for (int64_t row = 0; row < e.rows; ++row) walk.row(row * e.stride);
    };
    if (x != nullptr) {
      run(GradData<T, kTerms, kGate, Through::kStatistics>{g, x, f, e, dx, sums});
    } else {
      run(GradData<T, kTerms, kGate, Through::kNothing>{g, x, f, e, dx, sums});
    }
  });
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
